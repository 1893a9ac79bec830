"""Requests to a workflow's address, and the trigger that understands them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from loops.event import Delivery, Event
from triggers.source import Arrival, Ignored, Incoming
from triggers.webhook import WebhookSource

SOURCE = WebhookSource()
RECEIVED = datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC)


def trigger(**inputs: Any) -> dict[str, Any]:
    """A webhook trigger whose event is named by the body, unless an input says otherwise."""
    said = {"event": "{request.body.event}", "distinct_id": "{request.body.distinct_id}", **inputs}
    return {"type": "webhook", "inputs": {name: {"value": value} for name, value in said.items()}}


def settings(**inputs: Any) -> dict[str, Any]:
    return {"workflow": "w1", "trigger": trigger(**inputs)}


def request(
    body: Any = None,
    *,
    raw: bytes | None = None,
    content_type: str = "application/json",
    query: str = "",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> Incoming:
    sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    return Incoming({"content-type": content_type, **(headers or {})}, sent, query, method)


def arrive(incoming: Incoming, secret: str = "", **inputs: Any) -> Arrival:
    arrival = SOURCE.receive(incoming, {"webhook_secret": secret} if secret else {})
    return SOURCE.understood(arrival, settings(**inputs))


def parsed(incoming: Incoming, secret: str = "", **inputs: Any) -> list[Event] | Ignored:
    """The events of a request: the same from memory as from what is stored of it."""
    arrival = arrive(incoming, secret, **inputs)
    found = SOURCE.parse(stored(arrival, incoming.body), arrival.parsed, settings(**inputs))
    assert found == SOURCE.parse(stored(arrival, incoming.body), None, settings(**inputs))
    return found


def event(incoming: Incoming, secret: str = "", **inputs: Any) -> Event:
    found = parsed(incoming, secret, **inputs)
    assert isinstance(found, list)
    (one,) = found
    return one


def stored(arrival: Arrival, body: bytes) -> Delivery:
    headers = dict(arrival.headers or {})
    return Delivery("d1", "p", 3, "webhook", arrival.key, arrival.name, RECEIVED, headers, body, arrival.verified)
