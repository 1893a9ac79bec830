"""Deliveries that have come, read once more: the events they mean, as they were or would be held against loops."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict, LoopsError
from loops.event import Delivery, Event
from loops.ports import Reader
from loops.store import connections, deliveries, replays
from loops.threads import off_loop
from triggers.people import joined
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.source import Ignored, Source
from triggers.starting import event_of


@dataclass(frozen=True, slots=True)
class PastDelivery:
    """A stored delivery: the settings of its connection, and of each of its events that is stored the body and the
    verdicts, by uuid."""

    delivery: Delivery
    settings: Mapping[str, Any]
    stored: Mapping[str, tuple[bytes | None, Sequence[Any]]]


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
    receiver = connections.get(connection, row["connection_id"])
    settings = {} if receiver is None else receiver.config
    return PastDelivery(delivery, settings, replays.stored_events(connection, delivery.id))


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
    fresh = [event for event in events if past.stored.get(event.uuid, (None, ()))[0] is None]
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
        return [_as_stored(past, event) for event in events]

    return read


def _as_stored(past: PastDelivery, event: Event) -> Event:
    body = past.stored.get(event.uuid, (None, ()))[0]
    return event if body is None else dataclasses.replace(event_of(body), claim=event.claim)
