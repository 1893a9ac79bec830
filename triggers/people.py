"""Events joined with what is known of their persons and groups, in the transaction that dispatches them."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.event import Event
from loops.store import people as store
from triggers.posthog.people import MOST_BYTES, Group, Named, People, enriched, named

log = logging.getLogger("loops.people")


def remembered(
    connection: sa.Connection, project_id: str, events: Sequence[Event], settings: Mapping[str, Any], now: datetime
) -> list[Event]:
    """The events with their persons and groups, each as known after the event; what they say is stored.

    `settings` are the connection's; done again, it comes to the same.
    """
    who = named(events)
    people = _known(connection, project_id, who, now, hold=True)
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
    connection: sa.Connection, project_id: str, events: Sequence[Event], settings: Mapping[str, Any], now: datetime
) -> list[Event]:
    """The events with their persons and groups as they are known now. Stores nothing."""
    return enriched(events, _known(connection, project_id, named(events), now, hold=False), group_types(settings))


def group_types(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of groups that a connection names, in the order of PostHog's indexes."""
    return tuple(one for part in str(settings.get("group_types") or "").split(",") if (one := part.strip()))


def _known(connection: sa.Connection, project_id: str, who: Named, now: datetime, *, hold: bool) -> People:
    held_persons, held_groups = (who.changing_persons, who.changing_groups) if hold else (frozenset(), frozenset())
    persons = store.read_persons(connection, project_id, who.persons, held=held_persons, now=now)
    groups = store.read_groups(connection, project_id, who.groups, held=held_groups, now=now)
    return People(persons, {Group(*key): properties for key, properties in groups.items()})
