"""What every source promises. One more source adds its samples here and passes the same suite."""

import base64
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loops.errors import DeliveryError, PayloadMalformed, SignatureInvalid
from loops.event import Delivery, Event
from triggers.registry import SOURCES
from triggers.source import Arrival, Ignored, Incoming, Source
from triggers.webhook import WebhookSource

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECEIVED = datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Samples:
    """`signed` makes a request of a body and a delivery's key as the sender would, verified by `secrets`.

    `own_ids`: events bring ids of their own; `unsigned`: without a secret a delivery is taken, and not verified;
    `malformed` are bodies that its senders never send.
    """

    secrets: dict[str, str]
    settings: dict[str, Any]
    signed: Callable[[bytes, str], Incoming]
    signature_header: str
    body: bytes
    ignored: Callable[[], Incoming]
    own_ids: bool = False
    unsigned: bool = False
    malformed: tuple[bytes, ...] = (b"", b"{", b"[]", b"null", b"\xff", b'{"x":' + b"[" * 500)


def _github(body: bytes, key: str, event: str = "issues") -> Incoming:
    signature = "sha256=" + hmac.digest(b"a secret", body, "sha256").hex()
    headers = {"x-github-event": event, "x-github-delivery": key, "x-hub-signature-256": signature}
    return Incoming({**headers, "content-type": "application/json"}, body)


def _posthog(body: bytes, key: str) -> Incoming:
    stamp = str(int(time.time()))
    signed = b".".join([key.encode(), stamp.encode(), body])
    signature = base64.b64encode(hmac.digest(b"a secret", signed, "sha256")).decode()
    headers = {"webhook-id": key, "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}
    return Incoming({**headers, "content-type": "application/json"}, body)


def _slack(body: bytes, key: str) -> Incoming:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    sent = json.dumps({**payload, "event_id": key}).encode() if isinstance(payload, dict) else body
    now = str(int(time.time()))
    signature = "v0=" + hmac.digest(b"a secret", f"v0:{now}:".encode() + sent, "sha256").hex()
    headers = {"x-slack-request-timestamp": now, "x-slack-signature": signature, "content-type": "application/json"}
    return Incoming(headers, sent)


def _webhook(body: bytes, key: str) -> Incoming:
    signature = "sha256=" + hmac.digest(b"a secret", body, "sha256").hex()
    headers = {"idempotency-key": key, "x-hub-signature-256": signature, "content-type": "application/json"}
    return Incoming(headers, body)


def received(source: Source, incoming: Incoming, samples: Samples) -> Arrival:
    """What a source makes of a request, with what its connection says of it where the source asks for that."""
    arrival = source.receive(incoming, samples.secrets)
    return source.understood(arrival, samples.settings) if isinstance(source, WebhookSource) else arrival


SAMPLES = {
    "github": Samples(
        secrets={"webhook_secret": "a secret"},
        settings={"app_slug": "loops"},
        signed=_github,
        signature_header="x-hub-signature-256",
        body=(FIXTURES / "github" / "issues__opened.json").read_bytes(),
        ignored=lambda: _github((FIXTURES / "github" / "ping__hook.json").read_bytes(), "k1", "ping"),
    ),
    "posthog": Samples(
        secrets={"webhook_secret": "a secret"},
        settings={"group_types": "company"},
        signed=_posthog,
        signature_header="webhook-signature",
        body=(FIXTURES / "posthog" / "webhook__pageview.json").read_bytes(),
        ignored=lambda: _posthog(b'{"event": {"event": "$slack_message_received", "distinct_id": "u"}}', "k1"),
        own_ids=True,
        unsigned=True,
    ),
    "slack": Samples(
        secrets={"signing_secret": "a secret"},
        settings={"app_id": "A0LOOPS", "bot_id": "B0LOOPS", "user_id": "U0LOOPS"},
        signed=_slack,
        signature_header="x-slack-signature",
        body=(FIXTURES / "slack" / "message__plain.json").read_bytes(),
        ignored=lambda: _slack((FIXTURES / "slack" / "message__edited.json").read_bytes(), "k1"),
    ),
    "webhook": Samples(
        secrets={"webhook_secret": "a secret"},
        settings={
            "workflow": "w1",
            "trigger": {
                "type": "webhook",
                "inputs": {
                    "event": {"value": "{request.body.event}"},
                    "distinct_id": {"value": "{request.body.distinct_id}"},
                },
            },
        },
        signed=_webhook,
        signature_header="x-hub-signature-256",
        body=(FIXTURES / "webhook" / "order__paid.json").read_bytes(),
        ignored=lambda: _webhook(b'{"event": "$slack_message_received", "distinct_id": "u"}', "k1"),
        unsigned=True,
        # Whatever is JSON may be meant; what it lacks for an event, the workflow's templates tell.
        malformed=(b"{", b"\xff", b'{"x":' + b"[" * 500),
    ),
}


@pytest.fixture(params=sorted(SOURCES))
def name(request: pytest.FixtureRequest) -> str:
    wanted: str = request.param
    return wanted


@pytest.fixture
def source(name: str) -> Source:
    return SOURCES[name]


@pytest.fixture
def samples(name: str) -> Samples:
    return SAMPLES[name]


def stored(source: Source, arrival: Arrival, incoming: Incoming, *, project_id: str = "p") -> Delivery:
    kept = {key: value for key, value in incoming.headers.items() if "signature" not in key}
    return Delivery(
        "d1", project_id, 3, source.name, arrival.key, arrival.name, RECEIVED, kept, incoming.body, arrival.verified
    )


def events(source: Source, samples: Samples, key: str = "k1", project_id: str = "p") -> list[Event]:
    incoming = samples.signed(samples.body, key)
    arrival = source.receive(incoming, samples.secrets)
    found = source.parse(stored(source, arrival, incoming, project_id=project_id), arrival.parsed, samples.settings)
    assert isinstance(found, list)
    return found


def test_a_source_is_registered_under_its_own_name_with_a_limit(name: str, source: Source) -> None:
    assert source.name == name
    assert 0 < source.limit <= 256 * 1024 * 1024


def test_a_signed_request_is_received_with_the_senders_key(source: Source, samples: Samples) -> None:
    arrival = source.receive(samples.signed(samples.body, "k1"), samples.secrets)
    assert arrival.key == "k1"
    assert arrival.name
    assert arrival.ignored is None
    assert arrival.verified


def test_a_request_that_is_not_signed_or_was_changed_is_refused(source: Source, samples: Samples) -> None:
    signed = samples.signed(samples.body, "k1")
    unsigned = {key: value for key, value in signed.headers.items() if key != samples.signature_header}
    spoilt = {**signed.headers, samples.signature_header: "é\udce9"}
    for incoming in (
        signed._replace(headers=unsigned),
        signed._replace(headers=spoilt),
        signed._replace(headers={}),
        signed._replace(body=signed.body + b" "),
    ):
        with pytest.raises(SignatureInvalid):
            source.receive(incoming, samples.secrets)
    if samples.unsigned:
        assert not source.receive(signed, {}).verified
    else:
        with pytest.raises(SignatureInvalid):
            source.receive(signed, {})
    with pytest.raises(SignatureInvalid):
        source.receive(signed, dict.fromkeys(samples.secrets, "another"))


def test_a_signed_body_that_is_no_payload_is_a_refusal_that_names_place_and_mend(
    source: Source, samples: Samples
) -> None:
    for body in samples.malformed:
        with pytest.raises(PayloadMalformed) as caught:
            source.receive(samples.signed(body, "k1"), samples.secrets)
        assert isinstance(caught.value, DeliveryError), body
        assert caught.value.message
        assert caught.value.path, body
        assert caught.value.hint, body


def test_what_is_known_and_ignored_gives_its_reason_twice(source: Source, samples: Samples) -> None:
    incoming = samples.ignored()
    arrival = received(source, incoming, samples)
    assert arrival.ignored
    for parsed in (arrival.parsed, None):
        found = source.parse(stored(source, arrival, incoming), parsed, samples.settings)
        assert found == Ignored(arrival.ignored)


def test_a_delivery_means_the_same_whenever_it_is_parsed(source: Source, samples: Samples) -> None:
    incoming = samples.signed(samples.body, "k1")
    arrival = source.receive(incoming, samples.secrets)
    delivery = stored(source, arrival, incoming)
    first = source.parse(delivery, arrival.parsed, samples.settings)
    assert first == source.parse(delivery, arrival.parsed, samples.settings)
    assert first == source.parse(delivery, None, samples.settings)


def test_an_event_is_complete_and_can_be_stored(source: Source, samples: Samples) -> None:
    for event in events(source, samples):
        assert event.source == source.name
        assert event.name
        assert event.distinct_id
        assert event.timestamp.tzinfo is not None
        assert event.verified
        json.dumps(dict(event.properties), allow_nan=False).encode()


def test_an_events_id_is_its_deliverys_and_its_projects(source: Source, samples: Samples) -> None:
    def ids(key: str, project_id: str) -> list[str]:
        return [event.uuid for event in events(source, samples, key, project_id)]

    assert ids("k1", "p") == ids("k1", "p")
    if samples.own_ids:
        assert ids("k1", "p") == ids("k2", "q")
        return
    assert not set(ids("k1", "p")) & {*ids("k2", "p"), *ids("k1", "q")}


def test_what_is_not_verified_does_not_become_so_by_parsing(source: Source, samples: Samples) -> None:
    incoming = samples.signed(samples.body, "k1")
    arrival = source.receive(incoming, samples.secrets)
    found = source.parse(replace(stored(source, arrival, incoming), verified=False), arrival.parsed, samples.settings)
    assert isinstance(found, list)
    assert not any(event.verified for event in found)
