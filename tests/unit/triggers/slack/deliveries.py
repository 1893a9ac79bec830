"""Signed Slack deliveries for the tests."""

import copy
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from loops.event import Delivery, Event
from triggers.slack import SlackSource
from triggers.source import Arrival, Ignored, Incoming

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SECRETS = {"signing_secret": SECRET}
NOW = 1_793_610_005
RECEIVED = datetime(2026, 11, 2, 9, 0, 5, tzinfo=UTC)
SOURCE = SlackSource(lambda: NOW)
OWN = {"team_id": "T0ACME", "app_id": "A0LOOPS", "bot_id": "B0LOOPS", "user_id": "U0LOOPS"}

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slack"
REAL = Path(__file__).parents[5] / "shared" / "data" / "slack"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def fixture(name: str, event: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The payload `<event>__<variant>`, keys of its event and its own changed."""
    payload: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_bytes())
    payload |= copy.deepcopy(changes)
    if event is not None:
        payload["event"] |= event
    return payload


def form(name: str) -> bytes:
    return (FIXTURES / f"{name}.form").read_bytes()


def interaction(payload: Any) -> bytes:
    """As Slack sends what was pressed or filled in."""
    return urlencode({"payload": json.dumps(payload)}).encode()


def encoded(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()


def sign(body: bytes, timestamp: str = str(NOW), secret: str = SECRET) -> str:
    return "v0=" + hmac.digest(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, "sha256").hex()


def incoming(payload: Any, *, content_type: str | None = None, **headers: str | None) -> Incoming:
    """As Slack sends it; a header is changed by its name with _ for -, or left out by None."""
    body = encoded(payload)
    sent: dict[str, str | None] = {
        "content-type": content_type or (JSON if body[:1] in b"{[" else FORM),
        "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
        "x-slack-request-timestamp": str(NOW),
        "x-slack-signature": sign(body),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return Incoming({name: value for name, value in sent.items() if value is not None}, body)


def receive(payload: Any, **headers: str | None) -> Arrival:
    return SOURCE.receive(incoming(payload, **headers), SECRETS)


def delivery(payload: Any, arrival: Arrival | None = None, **changes: Any) -> Delivery:
    sent = incoming(payload)
    took = arrival or SOURCE.read(sent)
    headers = {"content-type": sent.headers["content-type"]}
    given = {"project_id": "p", "connection_id": 3, "key": took.key, **changes}
    return Delivery(
        id="d1", source="slack", name=took.name, received_at=RECEIVED, headers=headers, body=sent.body, **given
    )


def parsed(payload: Any, settings: dict[str, Any] | None = None, **changes: Any) -> Event:
    """The one event of a delivery that was received, from memory."""
    arrival = receive(payload)
    events = SOURCE.parse(delivery(payload, arrival, **changes), arrival.parsed, settings or {})
    assert not isinstance(events, Ignored), events.reason
    (event,) = events
    return event


def properties(payload: Any, **settings: Any) -> dict[str, Any]:
    return dict(parsed(payload, settings).properties)
