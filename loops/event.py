"""Frozen values for what arrives: a delivery, and the events that it parses into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Person:
    """Who a PostHog event is about."""

    id: str
    name: str = ""
    properties: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """One normalised fact. Identity: (project, source, uuid).

    `name` is the event id that triggers ask for (`$github_event_received`, `$slack_message_received`, `$scheduled`,
    a PostHog event's own name). `subject` is what order is kept for, such as an issue, a thread or a branch; None
    where nothing has to be kept in order. `claim` names what the event means: events with one claim are the same
    fact told twice, and a loop takes it once.
    """

    uuid: str
    name: str
    source: str
    distinct_id: str
    timestamp: datetime
    properties: Mapping[str, JsonValue]
    subject: str | None = None
    claim: str | None = None
    url: str | None = None
    person: Person | None = None
    groups: Mapping[str, JsonValue] = field(default_factory=dict)
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """One arrival over HTTP or a socket, exactly as it came.

    `key` is the sender's own id of the delivery (deduplication is by connection and key); `name` what the sender
    calls it (`issues`, `event_callback`); `body` the raw bytes that were verified.
    """

    id: str
    project_id: str
    connection_id: int
    source: str
    key: str
    name: str
    received_at: datetime
    headers: Mapping[str, str]
    body: bytes
    verified: bool = True


def event_json(event: Event) -> dict[str, Any]:
    """An event as templates and the event's row see it."""
    return {
        "uuid": event.uuid,
        "event": event.name,
        "source": event.source,
        "distinct_id": event.distinct_id,
        "timestamp": event.timestamp.isoformat(),
        "url": event.url,
        "subject": event.subject,
        "properties": dict(event.properties),
        "person": None
        if event.person is None
        else {"id": event.person.id, "name": event.person.name, "properties": dict(event.person.properties)},
        "groups": dict(event.groups),
        "verified": event.verified,
    }
