"""Whatever is changed about a request, it is an event or a refusal that names what is wrong, never a fault of ours."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loops.errors import DeliveryError, LoopsError
from tests.unit.triggers.posthog.test_mutations import mutated
from tests.unit.triggers.webhook.requests import SOURCE, arrive, parsed, request
from triggers.source import Ignored, Incoming

SAMPLES: list[Any] = [
    {"event": "order_paid", "distinct_id": "ada", "total": 12.5, "items": [{"id": 1}, {"id": 2}]},
    {"event": "x", "distinct_id": 7, "properties": {"$set": {"a": None}}},
]
TRIGGERS: list[dict[str, Any]] = [
    {},
    {"properties": "{request.body.properties}"},
    {"event": "shop_{request.body.event}", "properties": {"all": "{request}"}},
    {"event": "{lower(request.body.event)}", "distinct_id": "{request.body.items[1].id}"},
]
TYPES = ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "é/\udc80"]
NAMED = (
    "event",
    "distinct_id",
    "properties",
    "the body",
    "the form",
    "the query",
    "no event",
    "the header",
    "the webhook",
)


def outcome(receive: Callable[[], Any]) -> Any:
    """What was received, or the refusal."""
    try:
        return receive()
    except LoopsError as refused:
        return refused


def check(incoming: Incoming, **inputs: Any) -> None:
    found = outcome(lambda: parsed(incoming, **inputs))
    if isinstance(found, LoopsError):
        assert isinstance(found, DeliveryError), found
        assert 400 <= found.http_status < 500
        assert any(name in found.message for name in NAMED), found.message
        return
    if isinstance(found, Ignored):
        assert found.reason
        return
    (event,) = found
    assert event.name.strip()
    assert event.distinct_id.strip()
    shown = [dict(event.properties), event.name, event.distinct_id]
    json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()
    assert "\0" not in repr(shown)


@given(st.sampled_from(SAMPLES), st.sampled_from(TRIGGERS), st.integers(0, 2**32))
def test_a_changed_body_is_an_event_or_a_refusal_that_names_what(
    sample: Any, trigger: dict[str, Any], seed: int
) -> None:
    check(request(mutated(sample, seed)), **trigger)


@given(
    st.binary(max_size=200),
    st.sampled_from(TYPES),
    st.text(max_size=60),
    st.dictionaries(st.sampled_from(["idempotency-key", "webhook-id", "x-a"]), st.text(max_size=250), max_size=3),
)
def test_any_bytes_with_any_headers_are_an_event_or_a_refusal_that_names_what(
    body: bytes, content_type: str, query: str, headers: dict[str, str]
) -> None:
    incoming = request(raw=body, content_type=content_type, query=query, headers=headers)
    check(incoming)
    check(incoming, event="fixed", distinct_id="{request.headers['x-a']}!")


@given(st.binary(max_size=100), st.dictionaries(st.sampled_from(["authorization", "webhook-signature"]), st.text()))
def test_no_header_that_is_not_the_secret_or_a_signature_is_taken(body: bytes, headers: dict[str, str]) -> None:
    refused = outcome(lambda: SOURCE.receive(Incoming(headers, body), {"webhook_secret": "a secret of some length"}))
    assert isinstance(refused, DeliveryError)
    assert refused.http_status == 401


def test_an_event_is_the_same_however_often_it_is_read() -> None:
    incoming = request(SAMPLES[0], headers={"idempotency-key": "k1"})
    assert arrive(incoming).key == arrive(incoming).key
