import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.connections.secrets import MASKED, Mask, SecretBox, mask
from loops.errors import StoreError

KEY = "first key, first key, first key, first key"
OTHER = "other key, other key, other key, other key"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_what_is_sealed_is_opened_the_same_and_does_not_show(secrets: dict) -> None:
    box = SecretBox([KEY])
    assert box.open(box.seal(secrets)) == secrets


def test_a_sealed_text_shows_nothing_and_differs_each_time() -> None:
    box = SecretBox([KEY])
    sealed = box.seal({"token": "ghp_abcdefgh"})
    assert "ghp_abcdefgh" not in sealed
    assert base64.b64encode(b"ghp_abcdefgh").decode() not in sealed
    assert sealed.isascii()
    assert sealed != box.seal({"token": "ghp_abcdefgh"})


def test_a_key_that_is_put_in_front_encrypts_and_the_old_one_still_decrypts() -> None:
    old = SecretBox([KEY])
    rotated = SecretBox([OTHER, KEY])
    assert rotated.open(old.seal({"a": 1})) == {"a": 1}
    assert SecretBox([OTHER]).open(rotated.seal({"a": 1})) == {"a": 1}


def test_what_is_sealed_anew_opens_without_the_old_key() -> None:
    anew = SecretBox([OTHER, KEY]).reseal(SecretBox([KEY]).seal({"a": 1}))
    assert SecretBox([OTHER]).open(anew) == {"a": 1}
    with pytest.raises(StoreError):
        SecretBox([KEY]).open(anew)
    with pytest.raises(StoreError):
        SecretBox([OTHER]).reseal(SecretBox([KEY]).seal({"a": 1}))


def test_a_wrong_key_names_the_setting_and_not_the_keys() -> None:
    sealed = SecretBox([KEY]).seal({"a": 1})
    with pytest.raises(StoreError) as caught:
        SecretBox([OTHER]).open(sealed)
    assert "LOOPS_SECRET_KEY" in caught.value.hint
    assert "key, " not in repr(caught.value)
    assert KEY not in repr(SecretBox([KEY]))


@pytest.mark.parametrize("damage", ["", "x", "ключ", "cut", "flip"])
def test_a_damaged_text_is_refused(damage: str) -> None:
    box = SecretBox([KEY])
    sealed = box.seal({"a": 1})
    flipped = sealed[:20] + ("A" if sealed[20] != "A" else "B") + sealed[21:]
    text = {"cut": sealed[:-8], "flip": flipped}.get(damage, damage)
    with pytest.raises(StoreError):
        box.open(text)


@pytest.mark.parametrize("keys", [[], [""], [KEY, ""]])
def test_a_box_without_a_key_cannot_be_made(keys: list[str]) -> None:
    with pytest.raises(StoreError, match="no secret key"):
        SecretBox(keys)


def test_each_purpose_has_a_key_of_its_own_that_the_first_key_decides() -> None:
    box = SecretBox([KEY, OTHER])
    derived = {box.derive("sessions"), box.derive("marks"), SecretBox([OTHER]).derive("sessions")}
    assert len(derived) == 3
    assert all(len(one) == 32 for one in derived)
    assert box.derive("sessions") == SecretBox([KEY]).derive("sessions")


SECRET = 'pä/ss+w"or d<&>%1'
BASIC = base64.b64encode(b"user:" + SECRET.encode()).decode()


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote(SECRET),
        quote_plus(SECRET),
        html.escape(SECRET),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_every_encoded_form_of_a_secret_is_masked(form: str) -> None:
    assert mask(f"before {form} after {form}", [SECRET]) == f"before {MASKED} after {MASKED}"


@given(before=st.binary(max_size=7), secret=st.text(min_size=8, max_size=30), after=st.binary(max_size=7))
def test_a_secret_inside_base64_is_masked_wherever_it_begins(before: bytes, secret: str, after: bytes) -> None:
    whole = before + secret.encode() + after
    for encoded in (base64.b64encode(whole).decode(), base64.urlsafe_b64encode(whole).decode()):
        assert MASKED in mask(encoded, [secret])


def test_a_basic_authorization_header_is_masked() -> None:
    masked = mask(f"Authorization: Basic {BASIC}", [SECRET])
    assert MASKED in masked
    assert len(masked) < 45


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_masked_text_never_holds_the_secret(secret: str, before: str, after: str) -> None:
    masked = mask(before + secret + after, [secret])
    assert secret in MASKED or secret not in masked.replace(MASKED, "\x00\x01")


def test_the_lines_of_a_private_key_are_masked_one_by_one_but_not_its_frame() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
    assert mask("got MIIEvQIBADANBgkqhkiG9w0B", [key]) == f"got {MASKED}"
    assert mask(json.dumps({"key": key}), [key]) == json.dumps({"key": MASKED})
    assert mask("-----BEGIN PRIVATE KEY-----", [key]) == "-----BEGIN PRIVATE KEY-----"


def test_short_values_and_texts_without_secrets_stay() -> None:
    assert mask("the port is 12345", ["12345", ""]) == "the port is 12345"
    assert Mask([])("anything") == "anything"


def test_a_secret_that_holds_another_is_masked_whole() -> None:
    assert mask("x secret-secret-2 y", ["secret-secret", "secret-secret-2"]) == f"x {MASKED} y"
