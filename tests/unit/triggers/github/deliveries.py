"""Signed GitHub deliveries for the tests."""

import copy
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loops.event import Delivery, Event
from triggers.github import GitHubSource
from triggers.source import Arrival, Ignored, Incoming

SECRET = "It's a Secret to Everybody"
SECRETS = {"webhook_secret": SECRET}
KEY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
RECEIVED = datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC)
SOURCE = GitHubSource()

FIXTURES = Path(__file__).parents[3] / "fixtures" / "github"
REAL = Path(__file__).parents[5] / "shared" / "data" / "github"


def fixture(name: str, **changes: Any) -> dict[str, Any]:
    """The payload `<event>__<variant>`, its top-level keys changed."""
    payload: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_bytes())
    return {**payload, **copy.deepcopy(changes)}


def without(payload: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in keys}


def encoded(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()


def sign(body: bytes, secret: str = SECRET, digest: str = "sha256") -> str:
    return f"{digest}={hmac.digest(secret.encode(), body, digest).hex()}"


def incoming(event: str, payload: Any, *, key: str = KEY, **headers: str | None) -> Incoming:
    """As GitHub sends it; a header is changed by its name with _ for -, or left out by None."""
    body = encoded(payload)
    sent: dict[str, str | None] = {
        "content-type": "application/json",
        "user-agent": "GitHub-Hookshot/044aadd",
        "x-github-event": event,
        "x-github-delivery": key,
        "x-hub-signature-256": sign(body),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return Incoming({name: value for name, value in sent.items() if value is not None}, body)


def receive(event: str, payload: Any, *, key: str = KEY, **headers: str | None) -> Arrival:
    return SOURCE.receive(incoming(event, payload, key=key, **headers), SECRETS)


def delivery(event: str, payload: Any, *, project_id: str = "p", connection_id: int = 3, key: str = KEY) -> Delivery:
    body = encoded(payload)
    headers = {"content-type": "application/json"}
    return Delivery("d1", project_id, connection_id, "github", key, event, RECEIVED, headers, body)


def parsed(event: str, payload: Any, *, key: str = KEY, **settings: Any) -> Event:
    """The one event of a delivery that was received, from memory."""
    arrival = receive(event, payload, key=key)
    events = SOURCE.parse(delivery(event, payload, key=key), arrival.parsed, settings)
    assert not isinstance(events, Ignored), events.reason
    (event_,) = events
    return event_


def properties(event: str, payload: Any, **settings: Any) -> dict[str, Any]:
    return dict(parsed(event, payload, **settings).properties)
