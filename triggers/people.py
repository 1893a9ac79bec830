"""Events joined with what is known of their persons and groups, in the transaction that dispatches them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from loops.event import Event
from loops.store import people as store
from loops.store.outage import is_outage
from triggers.posthog.people import MOST_BYTES, Group, Named, People, enriched, named

log = logging.getLogger("loops.people")


def hold_everybody(connection: sa.Connection, told: Iterable[tuple[str, Sequence[Event]]], now: datetime) -> bool:
    """Hold whomever a whole batch will change, in one order: of two batches that speak of the same persons one waits
    for the other, and never both. `told` are the projects with events of theirs.

    False where that failed for what one of them holds; then each delivery has to hold its own, and fails alone.
    """
    events: dict[str, list[Event]] = {}
    for project_id, some in told:
        events.setdefault(project_id, []).extend(some)
    if not events:
        return True
    try:
        with connection.begin_nested():
            for project_id in sorted(events):
                hold_people(connection, project_id, events[project_id], now)
    except DBAPIError as error:
        if is_outage(error):
            raise
        return False
    return True


def hold_people(connection: sa.Connection, project_id: str, events: Sequence[Event], now: datetime) -> None:
    """Hold the persons and groups that these events will change: until the transaction ends nobody else does."""
    who = named(events)
    store.hold_persons(connection, project_id, who.changing_persons, now)
    store.hold_groups(connection, project_id, who.changing_groups, now)


def remembered(
    connection: sa.Connection, project_id: str, events: Sequence[Event], settings: Mapping[str, Any], now: datetime
) -> list[Event]:
    """The events with their persons and groups, each as known after the event; what they say is stored.

    The transaction holds whom they change. `settings` are the connection's; done again, it comes to the same.
    """
    who = named(events)
    people = _known(connection, project_id, who)
    found = enriched(events, people, group_types(settings))
    store.write_persons(connection, project_id, {one: people.persons[one] for one in people.changed_persons}, now)
    store.write_groups(connection, project_id, {one: people.groups[one] for one in people.changed_groups}, now)
    store.touch(connection, project_id, who.persons - people.changed_persons, who.groups - people.changed_groups, now)
    if people.refused:
        log.warning(
            "properties of persons or groups were not changed: they would take more than %d bytes",
            MOST_BYTES,
            extra={"project_id": project_id, "refused": people.refused},
        )
    return found


def joined(
    connection: sa.Connection, project_id: str, events: Sequence[Event], settings: Mapping[str, Any]
) -> list[Event]:
    """The events with their persons and groups as they are known now. Stores nothing."""
    return enriched(events, _known(connection, project_id, named(events)), group_types(settings))


def group_types(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of groups that a connection names, in the order of PostHog's indexes."""
    return tuple(one for part in str(settings.get("group_types") or "").split(",") if (one := part.strip()))


def _known(connection: sa.Connection, project_id: str, who: Named) -> People:
    persons = store.read_persons(connection, project_id, who.persons)
    groups = store.read_groups(connection, project_id, who.groups)
    return People(persons, {Group(*key): properties for key, properties in groups.items()})
