"""What a draft hears of what came, part by part: read, parsed, and held against its trigger as dispatch would."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.definition import CompiledWorkflow
from loops.event import Event
from loops.schedules.timetable import Timing
from loops.store import connections, deliveries, forecasts
from loops.store.connections import ConnectionRow
from loops.store.forecasts import Came
from triggers.audience import Audience
from triggers.forecast import Forecaster
from triggers.hearing import hear, turns_on_access
from triggers.matcher import Index, Listener, Matches, kind_of
from triggers.names import RepositoryNames
from triggers.people import joined
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.properties import amended
from triggers.source import Ignored, Source
from triggers.webhook.event import SOURCE as WEBHOOK

PART = 2000
PART_BYTES = 16_000_000
_GITHUB = "github"
_OF_EVENT = {"$github_event_received": ("github",), "$slack_message_received": ("slack",)}


@dataclass(slots=True)
class Looked:
    """What was looked at: deliveries, those that mean nothing or cannot be read, their events, and events whose sender
    nobody has been asked about."""

    deliveries: int = 0
    ignored: int = 0
    unreadable: int = 0
    events: int = 0
    unasked: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """What is held against the past."""

    project_id: str
    workflow_id: str
    compiled: CompiledWorkflow
    listener: Listener
    timings: Sequence[Timing]
    connection_id: int | None = None


@dataclass(slots=True)
class Ears:
    """How the draft hears: an index of it alone, the names of repositories, and the connections of what came."""

    index: Index
    names: RepositoryNames
    rows: dict[int, ConnectionRow | None] = field(default_factory=dict)
    seen: dict[str, bool] = field(default_factory=dict)  # events of PostHog that it heard, and whether verified


@dataclass(frozen=True, slots=True)
class Heard:
    """An event that the draft may have heard, when it came, and with which delivery."""

    at: datetime
    delivery: str
    row: ConnectionRow | None
    event: Event
    matches: Matches


def sources_of(draft: Draft) -> tuple[str, ...]:
    """Where what it listens to comes from: of nothing else a delivery need be read."""
    names = draft.listener.filter.event_names
    if draft.listener.kind == "internal-event" and names is not None:
        return tuple(sorted({source for name in names for source in _OF_EVENT.get(name, ())}))
    return tuple(sorted(draft.compiled.sources))


def parts(page: Sequence[tuple[str, int]]) -> list[list[str]]:
    """Parts of few enough deliveries and bytes to be held in memory."""
    parts: list[list[str]] = []
    size = 0
    for delivery_id, one in page:
        if not parts or len(parts[-1]) >= PART or size + one > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(delivery_id)
        size += one
    return parts


def loaded(connection: sa.Connection, ears: Ears, ids: Sequence[str]) -> list[Came]:
    """These deliveries, and the connections that they came over."""
    came = forecasts.load(connection, ids)
    for number in {one.due.connection_id for one in came} - ears.rows.keys():
        ears.rows[number] = connections.get(connection, number)
    return came


def of_people(
    connection: sa.Connection, draft: Draft, ears: Ears, read: Sequence[tuple[Came, list[Event]]]
) -> list[tuple[Came, list[Event]]]:
    """The events with persons and groups as they are now, of those that the draft may hear: asked for together."""
    hears = draft.listener.filter.hears
    wanted: dict[int, list[Event]] = {}
    for came, events in read:
        wanted.setdefault(came.due.connection_id, []).extend(event for event in events if hears(event.name))
    known: dict[int, Iterator[Event]] = {}
    for number, asked in wanted.items():
        row = ears.rows.get(number)
        settings: Mapping[str, Any] = {} if row is None else row.config
        known[number] = iter(joined(connection, draft.project_id, asked, settings))
    return [
        (came, [next(known[came.due.connection_id]) if hears(event.name) else event for event in events])
        for came, events in read
    ]


def heard_of(draft: Draft, ears: Ears, found: Iterable[tuple[Came, Sequence[Event]]], looked: Looked) -> list[Heard]:
    """What the draft hears. Of an event that is nothing to it only the name stays, so that bodies are let go of."""
    heard: list[Heard] = []
    for came, events in found:
        for event in events:
            if event.source == POSTHOG and not _is_first(ears, event):
                continue
            looked.events += 1
            heard.append(_hear(draft, ears, came, event, looked))
    return heard


def _is_first(ears: Ears, event: Event) -> bool:
    """What came unverified does not count against the verified event."""
    return event.uuid not in ears.seen or (event.verified and not ears.seen[event.uuid])


def _hear(draft: Draft, ears: Ears, came: Came, event: Event, looked: Looked) -> Heard:
    row, arrival = ears.rows.get(came.due.connection_id), (came.due.received_at, came.due.id)
    if event.source == WEBHOOK:
        return Heard(*arrival, row, event, Matches(event, (draft.listener,)))
    former = ears.names.see(came.due.connection_id, event) if event.source == _GITHUB else ()
    matches = hear(ears.index, draft.project_id, event, former)
    if not matches.passed and not matches.missed:
        bare = replace(event, properties={}, person=None, groups={})
        return Heard(*arrival, row, bare, Matches(bare))
    if event.source == POSTHOG and matches.passed:
        ears.seen[event.uuid] = event.verified
    if draft.listener.asks_access and event.source == _GITHUB and event.uuid not in came.facts:
        looked.unasked += turns_on_access(ears.index, draft.project_id, event, former)
    return Heard(*arrival, row, event, matches)


def tell(draft: Draft, forecaster: Forecaster, heard: Sequence[Heard], own: set[int]) -> None:
    """Tell the forecaster what came of the trigger; `own` are the places of own output."""
    listener = draft.listener
    refuses = bool(draft.compiled.writes) and not listener.allows_unverified
    for place, one in enumerate(heard):
        if place in own:
            forecaster.stopped(one.at, "own_output", one.delivery)
        elif not one.matches.passed:
            named = kind_of(one.event) == listener.kind and listener.filter.hears(one.event.name)
            forecaster.stopped(one.at, "filters" if named else "trigger", one.delivery)
        elif refuses and not one.event.verified:
            forecaster.stopped(one.at, "unverified", one.delivery)
        else:
            forecaster.arrive(one.at, one.event, one.delivery)


def events_of(sources: Mapping[str, Source], came: Came, ears: Ears, looked: Looked) -> list[Event]:
    """The events of a delivery, with what was asked of others when they were decided."""
    looked.deliveries += 1
    row = ears.rows.get(came.due.connection_id)
    try:
        delivery = came.due.delivery(json.loads(came.headers), deliveries.expand(came.body))
        events = sources[came.due.source].parse(delivery, None, {} if row is None else row.config)
    except Exception:  # noqa: BLE001 - dispatch set it aside too, whatever is wrong with it
        looked.unreadable += 1
        return []
    if isinstance(events, Ignored):
        looked.ignored += 1
        return []
    return [amended(one, came.facts[one.uuid]) if one.uuid in came.facts else one for one in events]


def own_output(connection: sa.Connection, audience: Audience, heard: Sequence[Heard]) -> set[int]:
    """Which of them are own output, by their place."""
    return {
        place
        for place, one in enumerate(heard)
        if (one.matches.passed or one.matches.missed)
        and one.event.source != WEBHOOK
        and audience.own_words(connection, one.event, one.row) is not None
    }
