"""Play deliveries again: one, or all of a period that a loop missed.

A replay is read, heard and decided by what reads, hears and decides a delivery as it comes (Audience, Stages), over the
loops as they are now; what is lifted for it stands in terms.py. Each that starts a run has a number of its own.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from loops.errors import Busy, Conflict, NotFound, RequestError
from loops.event import Event, event_json
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.store import connections, explaining, replays
from loops.store import workflows as workflows_store
from loops.store.deliveries import EventRow
from loops.store.held_rows import once_free
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from triggers.audience import Audience, Heard
from triggers.definitions import Definitions, listener_of
from triggers.hearing import explain_heard
from triggers.matcher import Listener
from triggers.names import other_names
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.past import PastDelivery, find_past, past_events
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.repeats import repeats
from triggers.rights import Question
from triggers.run_ids import run_id
from triggers.source import Source
from triggers.stages import Stages
from triggers.starting import Begin, Writes
from triggers.terms import ONE, PERIOD, Terms
from triggers.verdict import Verdict
from triggers.webhook.event import SOURCE as WEBHOOK

log = logging.getLogger("loops.replay")

MOST_LOOPS = 500
PAGE = 100
PART_SECONDS = 20.0
"""After which a part of a period takes no more deliveries: some have to be asked about."""
_GITHUB = "github"
_SOURCES = {"internal-event": ("github", "slack"), "event": ("posthog",), "webhook": ("webhook",)}
_TRIES = 3
# Stages that are asked anew, since they say what the loop was or could do then. All others held back on purpose.
_ASKED_ANEW = frozenset({"enabled", "project", "trigger", "filters", "definition", "unverified", "error", "start"})
# What these say counted nothing, and is asked again whenever somebody plays the event again.
_NOT_KEPT = frozenset({"definition", "unverified"})


@dataclass(frozen=True, slots=True)
class Replayed:
    """What playing an event again came to for one workflow; without `run` it started none, and the verdict says why."""

    delivery_id: str
    workflow_name: str
    event: str
    event_uuid: str
    verdict: Verdict
    replay: int = 0
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Missed:
    """A part of a period: what was started or is held by debounce, how many deliveries were looked at, and where to go
    on (None: done)."""

    items: tuple[Replayed, ...]
    looked_at: int
    next: str | None


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops that are asked, with definitions of them alone: the dispatcher's belong to its transactions."""

    rows: Mapping[str, WorkflowRow]
    definitions: Definitions
    audience: Audience
    stages: Stages


@dataclass(frozen=True, slots=True)
class _Came:
    """An event of a past delivery, its place there, who of the loops hears it, and its repository's other names."""

    past: PastDelivery
    position: int
    heard: Heard
    former: Sequence[str]

    @property
    def event(self) -> Event:
        return self.heard.event


class Replays:
    """Raises NotFound, Conflict for what cannot be played again now, and Busy where too much is asked of GitHub."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        sources: Mapping[str, Source],
        begin: Begin,
        writes: Writes,
        audience: Audience,
        cancel: Cancel = cancel_alone,
    ) -> None:
        """`cancel` ends runs that others replace."""
        self._writer = writer
        self._reader = reader
        self._starting = Starting(engine, cancel)
        self._clock = clock
        self._sources = sources
        self._begin = begin
        self._writes = writes
        self._audience = audience

    async def delivery(self, project_id: str, wanted: str, workflow_id: str | None = None) -> list[Replayed]:
        """Play a delivery again, by our id or the sender's: for one workflow, or for every enabled one that it passes.

        A workflow that is named and does not pass is told with its reason.
        """
        past, loops = await self._reader.read(lambda c: self._find(c, project_id, wanted, workflow_id))
        events = await past_events(past, self._sources, self._reader)
        told: list[Replayed] = []
        for came in await self._heard(past, loops, events):
            passed = [loops.rows[one.key] for one in came.heard.matches.passed]
            for row in passed if workflow_id is None else loops.rows.values():
                one = await self._played(loops, came, row, ONE)
                told += [one] if one is not None and (workflow_id is not None or one.verdict.passed) else []
        return told

    async def missed(
        self, project_id: str, workflow_id: str, period: tuple[datetime, datetime], after: str = ""
    ) -> Missed:
        """Play again what a workflow missed of a period: what would start it now, has started no run of it and was not
        held back. Done in parts; the same part again starts nothing more."""
        loops, ids = await self._reader.read(lambda c: self._ids(c, project_id, workflow_id, period, after))
        items: list[Replayed] = []
        begun = time.monotonic()
        for number, delivery_id in enumerate(ids, start=1):
            for came in await self._missed_of(loops, project_id, delivery_id):
                one = await self._played(loops, came, loops.rows[workflow_id], PERIOD)
                items += [one] if one is not None and (one.run is not None or one.verdict.hold) else []
            if number < len(ids) and time.monotonic() - begun > PART_SECONDS:
                return Missed(tuple(items), number, delivery_id)
        return Missed(tuple(items), len(ids), ids[-1] if len(ids) == PAGE else None)

    async def _missed_of(self, loops: _Loops, project_id: str, delivery_id: str) -> list[_Came]:
        """The events of a delivery that a loop alone may have missed, and that it hears."""
        try:
            past = await self._reader.read(lambda connection: find_past(connection, project_id, delivery_id))
            events = await past_events(past, self._sources, self._reader)
        except (Conflict, NotFound):
            return []  # it means no event, or cannot be read: nothing of it was missed
        if past.due.source == POSTHOG:
            parsed = events
            came = await self._reader.read(lambda connection: repeats(connection, project_id, delivery_id, parsed))
            events = [event for event in events if event.uuid not in came]
        (key,) = loops.rows
        events = [event for event in events if not _held_back(past.stages_of(event.uuid, key))]
        return [one for one in await self._heard(past, loops, events) if one.heard.matches.passed]

    async def _heard(self, past: PastDelivery, loops: _Loops, events: Sequence[Event]) -> list[_Came]:
        """Who hears the events. What GitHub has to be asked is asked, and kept with the event."""

        def hearing(connection: sa.Connection) -> tuple[Sequence[str], list[Heard | Question]]:
            former = _former(connection, past, events)
            return former, [_hear(connection, past, loops, event, former) for event in events]

        former, found = await self._reader.read(hearing)
        came: list[_Came] = []
        for position, (event, one) in enumerate(zip(events, found, strict=True)):
            heard = one if isinstance(one, Heard) else await self._answered(past, loops, event, former, one)
            came.append(_Came(past, position, heard, former))
            if heard.facts is not None:
                await self._keep(came[-1])
        return came

    async def _answered(
        self, past: PastDelivery, loops: _Loops, event: Event, former: Sequence[str], question: Question
    ) -> Heard:
        """Who hears an event once the question that it leaves open is answered."""
        for _ in range(_TRIES):
            await self._audience.rights.answered(question)
            found = await self._reader.read(lambda connection: _hear(connection, past, loops, event, former))
            if isinstance(found, Heard):
                return found
            question = found  # what it asked may have changed meanwhile
        raise Busy("too much is asked of GitHub at once", hint="do it again in a moment")

    async def _keep(self, came: _Came) -> None:
        row = _row(came, [])
        await self._writer.run(lambda connection: replays.add_verdict(connection, row, self._clock.now()))

    async def _played(self, loops: _Loops, came: _Came, row: WorkflowRow, terms: Terms) -> Replayed | None:
        """What an event comes to for a workflow; None where it missed nothing."""
        # Filters may hold slow patterns: a thread of their own keeps them off the event loop.
        listener = await off_loop(lambda: _listener(loops, came, row))
        if isinstance(listener, Verdict):
            return _replayed(came, row, listener)
        told = await once_free(
            self._writer, lambda connection: self._decided(connection, loops, came, listener, row, terms)
        )
        if told is not None and told.run is not None:
            log.info("delivery played again", extra={"delivery_id": told.delivery_id, "run_id": told.run})
        return told

    def _decided(
        self,
        connection: sa.Connection,
        loops: _Loops,
        came: _Came,
        listener: Listener,
        judged: WorkflowRow,
        terms: Terms,
    ) -> Replayed | None:
        """One transaction. Holding the workflow's row, it gives every replay a number of its own."""
        row = workflows_store.get(connection, judged.project_id, judged.id, lock=True)
        if (row.status, row.version) != (judged.status, judged.version):
            raise Conflict(f"workflow {row.name!r} was changed meanwhile", hint="do it again")
        event, due = came.event, came.past.due
        key = (row.project_id, event.source, event.uuid)
        if "claim" not in terms.lifted and (
            replays.has_run(connection, *key, row.id) or _held_back(replays.stages_now(connection, *key, row.id))
        ):
            return None
        number = replays.next_number(connection, *key, row.id)
        verdict = loops.stages.decide(connection, due, event, listener, terms.numbered(number))
        if verdict.stage in _NOT_KEPT:
            return _replayed(came, row, verdict)
        verdict = replace(verdict, reason=f"replay {number}: {verdict.reason}")
        body = pack(event_json(event)) if verdict.passed or verdict.hold else None
        stored = replace(_row(came, [{**verdict.as_json(), "replay": number}]), body=body)
        replays.add_verdict(connection, stored, self._clock.now())
        if verdict.hold:
            replays.tell_held(connection, due.id)
        if not verdict.passed:
            return _replayed(came, row, verdict)
        replays.tell_started(connection, due.id)
        return replace(_replayed(came, row, verdict), replay=number, run=run_id(event, row.project_id, row.id, number))

    def _find(
        self, connection: sa.Connection, project_id: str, wanted: str, workflow_id: str | None
    ) -> tuple[PastDelivery, _Loops]:
        past = find_past(connection, project_id, wanted)
        if workflow_id is not None:
            rows = [_enabled(workflows_store.get(connection, project_id, workflow_id))]
        else:
            rows = explaining.active(connection, project_id, MOST_LOOPS + 1)
        if len(rows) > MOST_LOOPS:
            raise Conflict(f"more than {MOST_LOOPS} workflows are enabled", hint="name the one that it is for")
        return past, self._loops(connection, rows)

    def _loops(self, connection: sa.Connection, rows: Sequence[WorkflowRow]) -> _Loops:
        definitions = Definitions(self._begin, self._writes)
        for row in rows:
            definitions.take(connection, row)
        audience = self._audience.among(definitions)
        stages = Stages(definitions, audience, self._starting, self._clock)
        return _Loops({row.id: row for row in rows}, definitions, audience, stages)

    def _ids(
        self,
        connection: sa.Connection,
        project_id: str,
        workflow_id: str,
        period: tuple[datetime, datetime],
        after: str,
    ) -> tuple[_Loops, list[str]]:
        if period[0] >= period[1]:
            raise RequestError("the period ends before it begins", hint="give since before until", path="since")
        row = _enabled(workflows_store.get(connection, project_id, workflow_id))
        listener = listener_of(row)
        if listener is None:
            raise Conflict(
                f"workflow {row.name!r} is started by no delivery", hint="start it by hand: loops run WORKFLOW"
            )
        own = connections.named(connection, project_id, WEBHOOK, row.id) if listener.kind == WEBHOOK else None
        ids = replays.between(
            connection,
            project_id,
            _SOURCES[listener.kind],
            period,
            after=after,
            limit=PAGE,
            connection_id=None if own is None else own.id,
        )
        return self._loops(connection, [row]), ids


def _former(connection: sa.Connection, past: PastDelivery, events: Sequence[Event]) -> Sequence[str]:
    """The other names of the repository that the events are about."""
    if past.due.source != _GITHUB or not events:
        return ()
    return other_names(connection, past.due.connection_id, events[0])


def _hear(
    connection: sa.Connection, past: PastDelivery, loops: _Loops, event: Event, former: Sequence[str]
) -> Heard | Question:
    asked = past.has_facts(event.uuid)
    return loops.audience.hearing(connection, past.due, event, past.connection, former, asked=asked)


def _listener(loops: _Loops, came: _Came, row: WorkflowRow) -> Listener | Verdict:
    """The workflow's listener that hears the event, or why none does."""

    def stopped(stage: str, reason: str) -> Verdict:
        return Verdict(row.id, row.version, stage, passed=False, reason=reason)

    broken = loops.definitions.broken.get(row.id)
    if broken is not None:
        return stopped("trigger", f"its definition cannot be used any more: {broken.reason}")
    listener = loops.definitions.listener(row.id)
    if listener is None:
        return stopped("trigger", "its trigger is started by no delivery")
    hearing = next((one for one in came.heard.matches.passed if one.key == row.id), None)
    if hearing is None and listener.kind == WEBHOOK:
        return stopped("trigger", "its trigger is a webhook: it hears what is sent to its own address alone")
    if hearing is None:
        return explain_heard(listener, row.project_id, came.event, came.former)
    return hearing if came.heard.own is None else stopped("own_output", came.heard.own)


def _held_back(stages: set[str]) -> bool:
    """Whether one of these stages held an event back on purpose."""
    return bool(stages - _ASKED_ANEW)


def _replayed(came: _Came, row: WorkflowRow, verdict: Verdict) -> Replayed:
    return Replayed(came.past.due.id, row.name, came.event.name, came.event.uuid, verdict)


def _row(came: _Came, verdicts: list[dict[str, object]]) -> EventRow:
    event, due = came.event, came.past.due
    return EventRow(
        project_id=due.project_id,
        source=event.source,
        uuid=event.uuid,
        delivery_id=due.id,
        position=came.position,
        name=event.name,
        verdicts=verdicts,
        body=None,
        facts=came.heard.facts,
    )


def _enabled(row: WorkflowRow) -> WorkflowRow:
    if row.status != "active":
        hint = "create it anew to use it again" if row.status == "archived" else "loops workflows enable WORKFLOW"
        raise Conflict(f"workflow {row.name!r} is not active, so nothing starts it", hint=hint)
    return row
