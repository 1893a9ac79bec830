"""How a sender proves itself, where a webhook has a secret."""

import base64
import hmac
import time
from typing import Any

import pytest

from loops.errors import SignatureInvalid
from tests.unit.triggers.webhook.requests import arrive, event, request
from triggers.webhook.receive import IDS

SECRET = "a secret of some length"
ORDER = {"event": "order_paid", "distinct_id": "ada"}
BODY = request(ORDER).body
DIGEST = hmac.digest(SECRET.encode(), BODY, "sha256")


def standard(body: bytes, at: float, key: str = "msg_1") -> dict[str, str]:
    signed = f"{key}.{at:.0f}.".encode() + body
    value = base64.b64encode(hmac.digest(SECRET.encode(), signed, "sha256")).decode()
    return {"webhook-id": key, "webhook-timestamp": f"{at:.0f}", "webhook-signature": f"v1,{value}"}


@pytest.mark.parametrize(
    "headers",
    [
        {"x-hub-signature-256": f"sha256={DIGEST.hex()}"},
        {"x-anything": DIGEST.hex().upper()},
        {"x-shop-hmac-sha256": base64.b64encode(DIGEST).decode()},
        {"typeform-signature": "sha256=" + base64.b64encode(DIGEST).decode()},
        {"authorization": SECRET},
        {"authorization": f"Bearer {SECRET}"},
        {"x-gitlab-token": SECRET},
    ],
)
def test_a_signature_of_the_body_or_the_secret_itself_proves_the_sender(headers: dict[str, str]) -> None:
    assert arrive(request(ORDER, headers=headers), SECRET).verified


def test_standard_webhooks_headers_prove_the_sender_and_hold_the_deliverys_id() -> None:
    arrival = arrive(request(ORDER, headers=standard(BODY, time.time())), SECRET)
    assert (arrival.verified, arrival.key) == (True, "msg_1")


def test_standard_webhooks_headers_decide_alone_and_grow_old() -> None:
    for headers in (standard(BODY, time.time() - 400), {**standard(b"{}", time.time()), "authorization": SECRET}):
        with pytest.raises(SignatureInvalid):
            arrive(request(ORDER, headers=headers), SECRET)


@pytest.mark.parametrize("name", [name for name in IDS if name != "webhook-id"])
def test_no_header_that_is_not_signed_makes_a_signed_request_another_one(name: str) -> None:
    signed = standard(BODY, time.time())
    assert arrive(request(ORDER, headers={**signed, name: "forged"}), SECRET).key == "msg_1"
    assert arrive(request(ORDER, headers={**signed, name: "k" * 201}), SECRET).key == "msg_1"


def test_where_no_id_is_signed_the_first_that_came_counts() -> None:
    both: Any = {"webhook-id": "msg_1", "idempotency-key": "k1"}
    for proof in ({"x-signature": DIGEST.hex()}, {"authorization": SECRET}):
        assert arrive(request(ORDER, headers={**both, **proof}), SECRET).key == "k1"
    assert arrive(request(ORDER, headers={**standard(BODY, time.time()), **both})).key == "k1"  # nobody is verified


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "another"},
        {"authorization": "Basic " + base64.b64encode(SECRET.encode()).decode()},
        {"x-hub-signature-256": "sha256=" + hmac.digest(b"another", BODY, "sha256").hex()},
        {"x-hub-signature": "sha1=" + hmac.digest(SECRET.encode(), BODY, "sha1").hex()},
        {"x-hub-signature-256": "é\udce9"},
    ],
)
def test_whoever_does_not_know_the_secret_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        arrive(request(ORDER, headers=headers), SECRET)
    assert caught.value.http_status == 401
    assert SECRET not in caught.value.message + caught.value.hint


def test_the_query_is_not_read_where_only_the_body_was_signed() -> None:
    signed: Any = {"x-signature": DIGEST.hex()}
    assert event(request(ORDER, query="a=b", headers=signed), SECRET).properties == ORDER
    held: Any = {"authorization": SECRET}
    assert event(request(ORDER, query="a=b", headers=held), SECRET).properties == {**ORDER, "a": "b"}


def test_without_a_secret_nobody_is_verified() -> None:
    assert not arrive(request(ORDER, headers={"authorization": SECRET})).verified
