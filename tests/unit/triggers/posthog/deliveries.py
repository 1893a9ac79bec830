"""PostHog's deliveries for the tests: fixtures, and what they parse into."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loops.event import Delivery, Event
from triggers.posthog import PostHogSource
from triggers.source import Ignored, Incoming

FIXTURES = Path(__file__).parents[3] / "fixtures" / "posthog"
RECEIVED = datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC)
SOURCE = PostHogSource(now=lambda: RECEIVED)


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))


def packed(value: object) -> bytes:
    return gzip.compress(json.dumps(value).encode())


def delivery(name: str, body: bytes, *, key: str = "k1", project_id: str = "p", verified: bool = True) -> Delivery:
    return Delivery("d1", project_id, 3, "posthog", key, name, RECEIVED, {}, body, verified)


def parsed(value: object, *, secrets: dict[str, str] | None = None) -> list[Event]:
    """The events of a webhook destination's body, as received and parsed."""
    body = json.dumps(value).encode()
    arrival = SOURCE.receive(Incoming({}, body), secrets or {})
    events = SOURCE.parse(delivery(arrival.name, body, key=arrival.key), arrival.parsed, {})
    assert not isinstance(events, Ignored), events
    return events


def captured(value: Any, **more: Any) -> list[Event]:
    """The events of a captured body, read again from what is stored."""
    body = json.dumps(value).encode()
    arrival = SOURCE.captured(value, len(body), len(body))
    events = SOURCE.parse(delivery(arrival.name, body, key=arrival.key, verified=False, **more), None, {})
    assert not isinstance(events, Ignored), events
    return events
