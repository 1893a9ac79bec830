"""Deliveries that have come, read once more: the events they mean, as they were or would be held against loops."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict, LoopsError
from loops.event import Delivery, Event
from loops.ports import Reader
from loops.store import connections, deliveries, replays
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due
from loops.store.replays import StoredEvent
from loops.threads import off_loop
from triggers.people import joined
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.properties import amended
from triggers.source import Ignored, Source
from triggers.starting import event_of


@dataclass(frozen=True, slots=True)
class PastDelivery:
    """A stored delivery, its connection (None once that is gone), and what is stored of its events, by uuid."""

    due: Due
    delivery: Delivery
    connection: ConnectionRow | None
    stored: Mapping[str, StoredEvent]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The connection's, without secrets."""
        return {} if self.connection is None else self.connection.config

    def as_stored(self, event: Event) -> Event:
        """The event as it was stored with its runs, else as it was read, with what was asked of others when it was
        decided."""
        stored = self.stored.get(event.uuid)
        return event if stored is None else as_stored(event, stored)

    def has_facts(self, event_uuid: str) -> bool:
        """Whether what was asked of others is stored with the event."""
        return event_uuid in self.stored and bool(self.stored[event_uuid].facts)

    def stages_of(self, event_uuid: str, workflow_id: str) -> set[str]:
        """The stages of the verdicts that are stored of a workflow on the event."""
        stored = self.stored.get(event_uuid)
        return set() if stored is None else replays.stages_of(stored.verdicts, workflow_id)


def as_stored(event: Event, stored: StoredEvent) -> Event:
    """An event that was read again, as it was stored."""
    known = event if stored.body is None else dataclasses.replace(event_of(stored.body), claim=event.claim)
    return amended(known, stored.facts) if stored.facts else known


def find_past(connection: sa.Connection, project_id: str, wanted: str) -> PastDelivery:
    """By our id or the sender's. Raises NotFound, or Conflict where it cannot be read again (yet, or any more)."""
    row = deliveries.find(connection, project_id, wanted)
    if row["status"] == "accepted":
        raise Conflict(f"delivery {row['id']} waits to be held against the loops", hint="wait a moment")
    delivery = deliveries.load(connection, row["id"])
    if delivery is None:
        raise Conflict(
            f"the body of delivery {row['id']} is gone: retention removed it",
            hint="let the sender send it again; LOOPS_KEEP_DAYS says how long bodies are kept",
        )
    due = Due(**{name: row[name] for name in Due.__dataclass_fields__ if name in row})
    receiver = connections.get(connection, row["connection_id"])
    return PastDelivery(due, delivery, receiver, replays.stored_events(connection, delivery.id))


async def past_events(past: PastDelivery, sources: Mapping[str, Source], reader: Reader) -> list[Event]:
    """Its events, as they were stored with their runs, else read again; those of PostHog with persons and groups as
    they are now. Raises Conflict where it means none."""
    source = sources.get(past.delivery.source)
    if source is None:
        raise Conflict(f"this release has no source {past.delivery.source!r}")
    # Bodies may be large: a thread of their own keeps them off the event loop.
    events = await off_loop(_reading(past, source))
    if past.delivery.source != POSTHOG:
        return events
    fresh = [event for event in events if not has_body(past.stored, event)]
    project = past.delivery.project_id
    known = await reader.read(lambda connection: joined(connection, project, fresh, past.settings))
    by_uuid = {event.uuid: event for event in known}
    return [by_uuid.get(event.uuid, event) for event in events]


def _reading(past: PastDelivery, source: Source) -> Callable[[], list[Event]]:
    def read() -> list[Event]:
        try:
            events = source.parse(past.delivery, None, past.settings)
        except LoopsError as error:
            raise Conflict(f"delivery {past.delivery.id} cannot be read: {error.message}") from error
        if isinstance(events, Ignored):
            raise Conflict(f"delivery {past.delivery.id} means no event: {events.reason}")
        return [past.as_stored(event) for event in events]

    return read


def has_body(stored: Mapping[str, StoredEvent], event: Event) -> bool:
    """Whether the event is known as it was, with its person and groups."""
    return event.uuid in stored and stored[event.uuid].body is not None
