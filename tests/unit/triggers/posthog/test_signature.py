"""How a webhook destination proves itself, against a vector of another implementation and its own."""

import base64
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loops.errors import SignatureInvalid
from triggers.posthog.signature import verify

SECRET = "whsec_" + base64.b64encode(b"a key of some bytes").decode()
NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
BODY = b'{"event":{"event":"$pageview"}}'
CORPUS = Path(__file__).parents[5] / "shared" / "data" / "posthog"
VECTOR = CORPUS / "webhook_signed__standard_webhooks.headers.json"


def signed(body: bytes = BODY, key: bytes = b"a key of some bytes", at: datetime = NOW) -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    signature = hmac.digest(key, b".".join([b"msg_1", stamp.encode(), body]), "sha256")
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(signature).decode(),
    }


def refused(headers: Mapping[str, str], body: bytes = BODY, secret: str = SECRET, now: datetime = NOW) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        verify(headers, body, secret, now)
    return caught.value.message


@pytest.mark.skipif(not VECTOR.exists(), reason="the corpus of real payloads is not beside this checkout")
def test_what_another_implementation_signed_is_verified() -> None:
    vector = json.loads(VECTOR.read_text("utf-8"))
    body = (CORPUS / "webhook_signed__standard_webhooks.body").read_bytes()
    now = datetime.fromtimestamp(int(vector["headers"]["webhook-timestamp"]), UTC)
    verify(vector["headers"], body, vector["secret"], now)
    refused(vector["headers"], body + b" ", vector["secret"], now)


def test_a_secret_of_standard_webhooks_is_the_bytes_that_it_encodes() -> None:
    verify(signed(), BODY, SECRET, NOW)
    refused(signed(key=SECRET.encode()))


def test_any_other_secret_is_its_own_bytes() -> None:
    verify(signed(key="schlüssel".encode()), BODY, "schlüssel", NOW)


def test_one_of_several_signatures_is_enough_and_unknown_versions_do_not_count() -> None:
    headers = signed()
    right = headers["webhook-signature"]
    verify({**headers, "webhook-signature": f"v1,{'A' * 43}= {right}"}, BODY, SECRET, NOW)
    refused({**headers, "webhook-signature": right.replace("v1,", "v1a,")})
    refused({**headers, "webhook-signature": right.replace("v1,", "")})


@pytest.mark.parametrize("minutes", [-5, 5])
def test_a_signature_counts_for_five_minutes_either_way(minutes: int) -> None:
    at = NOW + timedelta(minutes=minutes)
    verify(signed(at=at), BODY, SECRET, NOW)
    assert "minutes from now" in refused(signed(at=at + timedelta(seconds=minutes // 5)))


@pytest.mark.parametrize("stamp", ["", "soon", "-1", "1e9", "9" * 40, "\N{FULLWIDTH DIGIT ONE}"])
def test_a_time_that_is_no_number_of_seconds_is_refused(stamp: str) -> None:
    assert "webhook-timestamp" in refused({**signed(), "webhook-timestamp": stamp})


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_a_signature_without_what_it_signs_is_refused(name: str) -> None:
    headers = signed()
    del headers[name]
    assert name in refused(headers)


@pytest.mark.parametrize("value", ["", " ", "v1", "v1,", "é\udce9", "v1," + "x" * 100_000, " ".join(["v1,x"] * 9999)])
def test_a_signature_of_any_shape_is_refused_and_no_exception(value: str) -> None:
    refused({**signed(), "webhook-signature": value})


@pytest.mark.parametrize("value", ["a shared secret", "Bearer a shared secret", "bearer a shared secret"])
@pytest.mark.parametrize("name", ["authorization", "x-webhook-secret", "x-anything"])
def test_the_secret_itself_proves_the_sender_in_a_header_of_any_name(name: str, value: str) -> None:
    verify({"accept": "*/*", name: value}, BODY, "a shared secret", NOW)
    refused({name: value + "x"}, secret="a shared secret")
    refused({name: ""}, secret="a shared secret")


def test_a_wrong_signature_is_not_mended_by_the_secret_beside_it() -> None:
    refused({"authorization": "a secret", **signed(key=b"another")}, secret="a secret")


def test_what_neither_signs_nor_knows_the_secret_is_refused() -> None:
    assert "webhook_secret" in refused({"content-type": "application/json"})
