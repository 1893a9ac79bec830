"""Why a delivery did or did not start each loop.

What was decided at the time is stored for the loops that started, nearly started or were stopped by a brake. For every
other enabled loop the answer is worked out again, from the delivery as it is stored and the definition that the loop
had then. What passes when it is worked out again started nothing all the same: that is its own stage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from loops.errors import DefinitionError, LoopsError
from loops.event import Delivery, Event
from loops.filters import ProjectFilters
from loops.projects import project_filters
from loops.store import connections, deliveries, explaining, holds, replays
from loops.store import workflows as workflows_store
from loops.store.connections import ConnectionRow
from loops.store.holds import HoldRow
from loops.store.replays import StoredEvent
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from server.services import Services
from triggers.audience import Audience
from triggers.definitions import listener_of
from triggers.hearing import explain_heard
from triggers.keys import instant_words
from triggers.matcher import Listener
from triggers.names import other_names
from triggers.past import as_stored, has_body
from triggers.people import joined
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.repeats import repeats
from triggers.slack.handing import HANDED
from triggers.source import Ignored, Source
from triggers.verdict import Verdict
from triggers.webhook.event import SOURCE as WEBHOOK

MOST_VERDICTS = 500
GITHUB = "github"
NOT_STARTED = "not_started"
"""The stage of a verdict that passes as far as it can be worked out again, while no run came of it."""

_UNDECIDED = {
    "accepted": "it has not been held against the loops yet",
    "quarantined": "it was set aside, so no loop was asked",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One verdict as it is shown. `recomputed` when it was worked out now; `event` is empty for a whole delivery, and
    `distinct_id` also where the delivery's body is no longer kept.

    `run` is the id of the run that it started, or whose live task it was handed to, None where there is none.
    """

    verdict: Mapping[str, Any]
    workflow_name: str
    event: str
    event_uuid: str
    recomputed: bool
    run: str | None = None
    distinct_id: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The delivery's row and its verdicts. `note` says why verdicts may be missing, empty when none are."""

    delivery: Mapping[str, Any]
    verdicts: tuple[Told, ...]
    note: str


@dataclass(slots=True)
class _Found:
    """What one read of the database gave."""

    delivery: Mapping[str, Any]
    stored: list[Mapping[str, Any]]
    raw: Delivery | None
    receiver: ConnectionRow | None
    known: Mapping[str, StoredEvent]
    loops: list[WorkflowRow]
    names: dict[str, str]
    runs: dict[tuple[str, str, int], str]
    spoken_to: dict[str, str]
    project: ProjectFilters
    holds: Mapping[str, HoldRow] = field(default_factory=dict)
    former: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    asks_access: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """The connection's, without secrets; none once it is gone."""
        return {} if self.receiver is None else self.receiver.config


async def explained(services: Services, project_id: str, wanted: str, workflow_id: str | None = None) -> Explanation:
    """The verdicts on a delivery, of one workflow or of all. Raises NotFound.

    A workflow that is named gets a verdict even when it is not enabled.
    """
    found = await services.reader.read(lambda connection: _find(connection, project_id, wanted, workflow_id))
    source = services.sources.get(found.delivery["source"])
    stored = [one for one in _stored(found) if workflow_id in {None, one.verdict["workflow"]}]
    # Bodies may be large and filters hold slow patterns: threads of their own keep them off the event loop.
    parsed = await off_loop(lambda: _events(found, source))
    events = await services.reader.read(lambda connection: _as_decided(connection, found, parsed))
    worked_out = await off_loop(lambda: _again(found, events, stored))
    passing = {event.uuid: event for event, verdict in worked_out if event is not None and verdict.passed}
    own = await services.reader.read(lambda c: _own(c, services.audience, found, passing.values())) if passing else {}
    again = [_told(found, event, _not_started(verdict, event, own)) for event, verdict in worked_out]
    found.notes += _as_now(services.audience, found, [event for event, _ in worked_out if event is not None])
    whose = {event.uuid: event.distinct_id for event in parsed}
    told = (*stored, *again)[:MOST_VERDICTS]
    verdicts = tuple(replace(one, distinct_id=whose.get(one.event_uuid, "")) for one in told)
    if len(stored) + len(again) > MOST_VERDICTS or len(found.loops) > MOST_VERDICTS:
        found.notes.append(f"only {MOST_VERDICTS} verdicts are shown; ask for one workflow to see its own")
    return Explanation(found.delivery, verdicts, "; ".join(found.notes))


def _find(connection: sa.Connection, project_id: str, wanted: str, workflow_id: str | None) -> _Found:
    delivery = deliveries.find(connection, project_id, wanted)
    stored = deliveries.events_of(connection, delivery["id"])
    if workflow_id is None:
        loops = explaining.active(connection, project_id, MOST_VERDICTS + 1)
    else:
        loops = [workflows_store.get(connection, project_id, workflow_id)]
    loops = explaining.as_of(connection, loops, delivery["received_at"])
    decided = {verdict["workflow"] for event in stored for verdict in event["verdicts"] or ()}
    receiver = connections.get(connection, delivery["connection_id"])
    return _Found(
        delivery=delivery,
        stored=stored,
        raw=deliveries.load(connection, delivery["id"]),
        receiver=receiver,
        known=replays.stored_events(connection, delivery["id"]),
        loops=loops,
        names=explaining.names(connection, sorted(decided)) | {row.id: row.name for row in loops},
        runs=explaining.started(connection, delivery["id"]),
        spoken_to=explaining.spoken_to(connection, delivery["id"], _handed(stored)),
        project=project_filters(connection, project_id, at=delivery["received_at"]),
        holds=holds.found(connection, _held_by(stored)),
    )


def _held_by(stored: Sequence[Mapping[str, Any]]) -> list[str]:
    return [verdict["hold"] for event in stored for verdict in event["verdicts"] or () if verdict.get("hold")]


def _handed(stored: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        verdict["workflow"] for event in stored for verdict in event["verdicts"] or () if verdict["stage"] == HANDED
    ]


def _as_decided(connection: sa.Connection, found: _Found, events: list[Event]) -> list[Event]:
    """The events as they were decided, as far as that is stored: without those that another delivery has brought, with
    what GitHub said. Persons and groups are as they are now where no run keeps them."""
    if events and events[0].source == POSTHOG:
        project_id = found.delivery["project_id"]
        came = repeats(connection, project_id, found.delivery["id"], events)
        found.notes += sorted({f"of an event: {words}" for words in came.values()})
        events = [event for event in events if event.uuid not in came]
        fresh = [event for event in events if not has_body(found.known, event)]
        now = {event.uuid: event for event in joined(connection, project_id, fresh, found.settings)}
        events = [now.get(event.uuid, event) for event in events]
    if events and events[0].source == GITHUB:
        found.former = other_names(connection, found.delivery["connection_id"], events[0])
    return [as_stored(event, found.known[event.uuid]) if event.uuid in found.known else event for event in events]


def _own(
    connection: sa.Connection, audience: Audience, found: _Found, events: Iterable[Event]
) -> dict[str, str | None]:
    """Why each of the events is own output, None where it is not."""
    return {
        event.uuid: None if event.source == WEBHOOK else audience.own_words(connection, event, found.receiver)
        for event in events
    }


def _not_started(verdict: Verdict, event: Event | None, own: Mapping[str, str | None]) -> Verdict:
    """A verdict that was worked out now and passed: no run came of it, or it would be stored."""
    if event is None or not verdict.passed:
        return verdict
    said = own.get(event.uuid)
    if said is not None:
        return replace(verdict, stage="own_output", passed=False, reason=said)
    by = "with its person and groups as they are now" if _has_people(event) else "by what is known now"
    reason = f"it started nothing when the delivery came; {by}: {verdict.reason}"
    return replace(verdict, stage=NOT_STARTED, passed=False, reason=reason)


def _has_people(event: Event) -> bool:
    return event.person is not None or bool(event.groups)


def _as_now(audience: Audience, found: _Found, events: Sequence[Event]) -> list[str]:
    """What has to be known of verdicts that were worked out again on these events."""
    notes: list[str] = []
    if any(_has_people(event) and not has_body(found.known, event) for event in events):
        notes.append("what is worked out again takes persons and groups as they are now, not as they were")
    unasked = (one for one in events if one.uuid not in found.known or not found.known[one.uuid].facts)
    if found.asks_access and any(audience.rights.asking(found.receiver, one) is not None for one in unasked):
        notes.append(
            "GitHub was not asked what the sender may do, as no loop wanted to know: where it is worked out again, "
            "actor_access is what the delivery itself says"
        )
    return notes


def _stored(found: _Found) -> Iterator[Told]:
    for event in found.stored:
        for verdict in event["verdicts"] or ():
            name = found.names.get(verdict["workflow"], "")
            started = (verdict["workflow"], event["uuid"], verdict.get("replay", 0))
            by = found.spoken_to if verdict["stage"] == HANDED else {}
            run = found.runs.get(started) if verdict["passed"] else by.get(verdict["workflow"])
            told = {**verdict, "reason": _debounced(verdict, event["uuid"], found)} if verdict.get("hold") else verdict
            yield Told(told, name, event["name"], event["uuid"], recomputed=False, run=run)


def _debounced(verdict: Mapping[str, Any], event_uuid: str, found: _Found) -> str:
    """What debounce made of an event: it waits, or another one of its key waits or went on in its place."""
    held = found.holds.get(verdict["hold"])
    if held is None or (held.released_at is None and held.event_uuid == event_uuid):
        return str(verdict["reason"])
    other = f"the event {held.event_uuid} of delivery {held.delivery_id}"
    which = f"{f' (key {held.shown!r})' if held.shown else ''}, the last of {held.count}"
    if held.released_at is None:
        return f"debounced into {other}{which} so far; that is held until {instant_words(held.due_at)}"
    run = f"started run {held.run_id}" if held.run_id is not None else "started none"
    return f"debounced into {other}{which}, which {run} at {instant_words(held.released_at)}"


def _again(found: _Found, events: Sequence[Event], stored: Sequence[Told]) -> list[tuple[Event | None, Verdict]]:
    """Verdicts of the loops that none is stored of, event by event; None for the whole delivery."""
    listening: list[Listener] = []
    told: list[tuple[Event | None, Verdict]] = []
    asked = {one.verdict["workflow"] for one in stored}
    for row in found.loops:
        heard = _listening(row, found)
        if isinstance(heard, Listener):
            listening.append(heard)
        elif row.id not in asked:
            told.append((None, heard))
    decided = {(one.verdict["workflow"], one.event_uuid) for one in stored}
    for event in events:
        for listener in listening:
            if len(told) > MOST_VERDICTS:
                return told
            if (listener.key, event.uuid) not in decided:
                found.asks_access |= listener.asks_access and event.source == GITHUB
                told.append((event, explain_heard(listener, found.delivery["project_id"], event, found.former)))
    return told


def _events(found: _Found, source: Source | None) -> list[Event]:
    """The delivery's events; none, with a note, where they cannot be known."""
    status = found.delivery["status"]
    if status in _UNDECIDED:
        found.notes.append(_UNDECIDED[status])
        return []
    if found.raw is None:
        found.notes.append("its body was removed after the days that deliveries are kept, so only stored verdicts show")
        return []
    if source is None:
        found.notes.append(f"this release has no source {found.delivery['source']!r}, so only stored verdicts show")
        return []
    try:
        events = source.parse(found.raw, None, found.settings)
    except LoopsError as error:
        found.notes.append(f"it cannot be read any more: {error.message}")
        return []
    if isinstance(events, Ignored):
        found.notes.append(f"it means no event: {events.reason}")
        return []
    return events


def _listening(row: WorkflowRow, found: _Found) -> Listener | Verdict:
    """What the workflow listened to, or why it could not hear anything."""

    def deaf(stage: str, reason: str) -> Verdict:
        return Verdict(row.id, row.version, stage, passed=False, reason=reason)

    if row.status != "active":
        return deaf("enabled", f"the loop is {_STATUS.get(row.status, row.status)}")
    if row.since_epoch > found.delivery["epoch"]:
        return deaf("enabled", "the loop was enabled, or enabled again, after this delivery had arrived")
    try:
        listener = listener_of(row, found.project)
    except DefinitionError as error:
        return deaf("definition", f"its definition cannot be used any more: {error.message}")
    if listener is None:
        return deaf("trigger", "its trigger is started by no delivery")
    if listener.kind == "webhook" and found.settings.get("workflow") != row.id:
        return deaf("trigger", "its trigger is a webhook: it hears what is sent to its own address alone")
    return listener


_STATUS = {"draft": "a draft: it is not enabled", "archived": "archived"}


def _told(found: _Found, event: Event | None, verdict: Verdict) -> Told:
    name, uuid = ("", "") if event is None else (event.name, event.uuid)
    return Told(verdict.as_json(), found.names.get(verdict.workflow, ""), name, uuid, recomputed=True)
