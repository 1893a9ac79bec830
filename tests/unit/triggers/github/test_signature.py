import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import SignatureInvalid
from tests.unit.triggers.github.deliveries import SECRET, SOURCE, fixture, incoming, receive, sign
from triggers.github.signature import verify

KNOWN = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_githubs_published_example_verifies() -> None:
    verify(KNOWN, b"Hello, World!", SECRET)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param(KNOWN[:-1] + "8", id="one digit wrong"),
        pytest.param(KNOWN[:-1], id="too short"),
        pytest.param(KNOWN + "0", id="too long"),
        pytest.param(KNOWN.removeprefix("sha256="), id="no prefix"),
        pytest.param("SHA256=" + KNOWN.removeprefix("sha256="), id="prefix in upper case"),
        pytest.param("sha256=é" + KNOWN[8:], id="GH-11 latin-1"),
        pytest.param("sha256=\udce9" + KNOWN[8:], id="GH-11 undecodable byte"),
        pytest.param("sha256=\N{FULLWIDTH DIGIT SEVEN}" + KNOWN[8:], id="full-width digit"),
        pytest.param(" " + KNOWN, id="space"),
        pytest.param(sign(b"Hello, World!", digest="sha1"), id="GH-13 sha1 in its place"),
        pytest.param(sign(b"Hello, World!", secret="other"), id="another secret"),
        pytest.param(sign(b"Hello, World?"), id="another body"),
    ],
)
def test_gh_11_any_other_header_is_refused_and_never_raises_otherwise(header: str | None) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        verify(header, b"Hello, World!", SECRET)
    assert "X-Hub-Signature-256" in caught.value.message
    assert SECRET not in f"{caught.value.message}{caught.value.hint}"


@given(header=st.text(st.characters(exclude_categories=())), body=st.binary())
def test_any_text_at_all_is_refused_as_a_signature(header: str, body: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verify(header, body, SECRET)


@given(body=st.binary(), secret=st.text(st.characters(codec="utf-8"), min_size=1))
def test_what_is_signed_with_the_secret_verifies(body: bytes, secret: str) -> None:
    verify(sign(body, secret), body, secret)


def test_gh_13_hex_digits_may_be_in_upper_case() -> None:
    verify("sha256=" + KNOWN.removeprefix("sha256=").upper(), b"Hello, World!", SECRET)


def test_gh_13_a_right_sha1_beside_a_wrong_sha256_is_refused() -> None:
    arrived = incoming("issues", fixture("issues__opened"))
    sha1 = sign(arrived.body, digest="sha1")
    with pytest.raises(SignatureInvalid):
        receive("issues", arrived.body, x_hub_signature=sha1, x_hub_signature_256="sha256=" + "0" * 64)


def test_gh_13_a_right_sha1_alone_is_refused_and_the_hint_says_so() -> None:
    arrived = incoming("issues", fixture("issues__opened"))
    sha1 = sign(arrived.body, digest="sha1")
    with pytest.raises(SignatureInvalid) as caught:
        receive("issues", arrived.body, x_hub_signature=sha1, x_hub_signature_256=None)
    assert "SHA-1" in caught.value.hint


@pytest.mark.parametrize("secrets", [{}, {"webhook_secret": ""}], ids=["none", "empty"])
def test_a_connection_without_a_secret_verifies_nothing(secrets: dict[str, str]) -> None:
    body = b"{}"
    arrived = incoming("issues", body, x_hub_signature_256=sign(body, secret=""))
    with pytest.raises(SignatureInvalid) as caught:
        SOURCE.receive(arrived, secrets)
    assert "webhook_secret" in caught.value.hint
