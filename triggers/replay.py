"""Play deliveries again: one, or all of a period that a loop missed.

A replay is held against the filters as they are now, and starts a run with a number of its own. What keeps the same
delivery, fact or mask from starting a run twice does not hold for it, nor do rate limit and debounce; overlap and the
quotas of its tasks do. Of a period, claims and brakes hold: what was held back on purpose was not missed.
"""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict, DefinitionError, RequestError
from loops.event import Delivery, Event, event_json
from loops.filters import ProjectFilters
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.projects import project_filters
from loops.store import connections, deliveries, explaining, replays
from loops.store import workflows as workflows_store
from loops.store.deliveries import EventRow
from loops.store.held_rows import once_free
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from triggers.definitions import listener_of
from triggers.matcher import Listener, explain
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.past import PastDelivery, find_past, past_events
from triggers.source import Source
from triggers.starting import Begin, Start, Writes, admission, start_run
from triggers.verdict import Verdict, unverified_reason
from triggers.webhook.event import SOURCE as WEBHOOK

log = logging.getLogger("loops.replay")

MOST_LOOPS = 500
PAGE = 100
_SOURCES = {"internal-event": ("github", "slack"), "event": ("posthog",), "webhook": ("webhook",)}
_HELD_BACK = frozenset({"claim", "mask", "rate_limit", "debounce", "overlap", "own_output", "thread"})
_SKIPPED = (
    "every filter passed; deduplication, claims and masks do not hold for a replay, nor do rate limit and debounce"
)


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
    """A part of a period: what was started, how many deliveries were looked at, and where to go on (None: done)."""

    items: tuple[Replayed, ...]
    looked_at: int
    next: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What one read of the database gave."""

    past: PastDelivery
    loops: list[WorkflowRow]
    project: ProjectFilters

    @property
    def delivery(self) -> Delivery:
        return self.past.delivery


class Replays:
    """Raises NotFound, or Conflict for what cannot be played again now."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        sources: Mapping[str, Source],
        begin: Begin,
        writes: Writes,
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

    async def delivery(self, project_id: str, wanted: str, workflow_id: str | None = None) -> list[Replayed]:
        """Play a delivery again, by our id or the sender's: for one workflow, or for every enabled one that it passes.

        A workflow that is named and does not pass is told with its reason.
        """
        found = await self._reader.read(lambda connection: _find(connection, project_id, wanted, workflow_id))
        if len(found.loops) > MOST_LOOPS:
            raise Conflict(f"more than {MOST_LOOPS} workflows are enabled", hint="name the one that it is for")
        judged = await self._judged(found)
        told = [await self._start(found, row, event, verdict) for row, event, verdict in judged]
        return told if workflow_id is not None else [one for one in told if one.verdict.passed]

    async def missed(
        self, project_id: str, workflow_id: str, period: tuple[datetime, datetime], after: str = ""
    ) -> Missed:
        """Play again what a workflow missed of a period: what would start it now and has started no run of it. Done in
        parts; the same part again starts nothing more."""
        row, ids = await self._reader.read(lambda connection: _ids(connection, project_id, workflow_id, period, after))
        items: list[Replayed] = []
        for delivery_id in ids:
            wanted = partial(_find, project_id=project_id, wanted=delivery_id, workflow_id=row.id)
            found = await self._reader.read(wanted)
            try:
                judged = await self._judged(found)
            except Conflict:
                continue  # it means no event, or cannot be read: nothing of it was missed
            for loop, event, verdict in judged:
                stored = found.past.stored.get(event.uuid, (None, ()))[1]
                if verdict.passed and replays.verdict_of(stored, row.id) not in _HELD_BACK:
                    told = await self._start(found, loop, event, verdict, only_missed=True)
                    items += [told] if told.run is not None else []
        return Missed(tuple(items), len(ids), ids[-1] if len(ids) == PAGE else None)

    async def _judged(self, found: _Found) -> list[tuple[WorkflowRow, Event, Verdict]]:
        """The verdicts of every loop on every event."""
        events = await past_events(found.past, self._sources, self._reader)
        # Filters may hold slow patterns: a thread of their own keeps them off the event loop.
        return await off_loop(
            lambda: [(row, event, self._judge(found, row, event)) for event in events for row in found.loops]
        )

    def _judge(self, found: _Found, row: WorkflowRow, event: Event) -> Verdict:
        def stopped(stage: str, reason: str) -> Verdict:
            return Verdict(row.id, row.version, stage, passed=False, reason=reason)

        try:
            listener = listener_of(row, found.project)
        except DefinitionError as error:
            return stopped("trigger", f"its definition cannot be used any more: {error.message}")
        if listener is None:
            return stopped("trigger", "its trigger is started by no delivery")
        if listener.kind == WEBHOOK and found.past.settings.get("workflow") != row.id:
            return stopped("trigger", "its trigger is a webhook: it hears what is sent to its own address alone")
        verdict = explain(listener, found.delivery.project_id, event)
        if not verdict.passed:
            return verdict
        if event.properties.get("own_app") is True and event.source != WEBHOOK:
            return stopped("own_output", "this installation's own app wrote it: own output never starts a loop")
        return self._judge_rights(found, row, event, listener, verdict)

    def _judge_rights(
        self, found: _Found, row: WorkflowRow, event: Event, listener: Listener, verdict: Verdict
    ) -> Verdict:
        if event.verified or listener.allows_unverified:
            return verdict
        try:
            writes = self._writes(row.id, row.version, found.project, lambda: row.definition)
        except DefinitionError as error:
            return dataclasses.replace(
                verdict, stage="definition", passed=False, reason=f"its definition cannot run: {error.message}"
            )
        return (
            dataclasses.replace(verdict, stage="unverified", passed=False, reason=unverified_reason(writes))
            if writes
            else verdict
        )

    async def _start(
        self, found: _Found, row: WorkflowRow, event: Event, verdict: Verdict, *, only_missed: bool = False
    ) -> Replayed:
        told = Replayed(found.delivery.id, row.name, event.name, event.uuid, verdict)
        if not verdict.passed:
            return told
        started = await once_free(
            self._writer,
            lambda connection: self._started(connection, found, told, row, event, only_missed=only_missed),
        )
        if started.run is not None:
            log.info("delivery played again", extra={"delivery_id": found.delivery.id, "run_id": started.run})
        return started

    def _started(
        self,
        connection: sa.Connection,
        found: _Found,
        told: Replayed,
        judged: WorkflowRow,
        event: Event,
        *,
        only_missed: bool,
    ) -> Replayed:
        """One transaction. Holding the workflow's row, it gives every replay a number of its own."""
        row = workflows_store.get(connection, judged.project_id, judged.id, lock=True)
        if (row.status, row.version) != (judged.status, judged.version):
            raise Conflict(f"workflow {row.name!r} was changed meanwhile", hint="do it again")
        now = self._clock.now()
        key = (row.project_id, event.source, event.uuid, row.id)
        if only_missed and (replays.has_run(connection, *key) or self._is_claimed(connection, found, row, event, now)):
            return told
        number = replays.next_number(connection, *key)
        state = self._begin(row.id, row.version, found.project, lambda: row.definition)
        admitted = admission(connection, self._starting, row, event, now)
        reason = "; ".join(filter(None, (f"replay {number}: {_SKIPPED}", admitted.reason)))
        verdict = dataclasses.replace(told.verdict, reason=reason)
        if not admitted.passes:
            verdict = dataclasses.replace(verdict, stage="overlap", passed=False)
        self._keep(connection, found, event, {**verdict.as_json(), "replay": number}, now)
        if not admitted.passes:
            return dataclasses.replace(told, verdict=verdict)
        run = start_run(connection, self._starting, Start(row, event, state, found.delivery.id, number), now, admitted)
        replays.count_run(connection, found.delivery.id)
        return dataclasses.replace(told, verdict=verdict, replay=number, run=run)

    def _is_claimed(
        self, connection: sa.Connection, found: _Found, row: WorkflowRow, event: Event, now: datetime
    ) -> bool:
        return event.claim is not None and (
            deliveries.claim(connection, row.id, event.claim, found.delivery.id, now) is not None
        )

    def _keep(
        self, connection: sa.Connection, found: _Found, event: Event, verdict: Mapping[str, Any], now: datetime
    ) -> None:
        row = EventRow(
            project_id=found.delivery.project_id,
            source=event.source,
            uuid=event.uuid,
            delivery_id=found.delivery.id,
            position=0,
            name=event.name,
            verdicts=[verdict],
            body=pack(event_json(event)),
        )
        replays.add_verdict(connection, row, now)


def _find(connection: sa.Connection, project_id: str, wanted: str, workflow_id: str | None) -> _Found:
    past = find_past(connection, project_id, wanted)
    if workflow_id is None:
        loops = explaining.active(connection, project_id, MOST_LOOPS + 1)
    else:
        loops = [_enabled(workflows_store.get(connection, project_id, workflow_id))]
    return _Found(past, loops, project_filters(connection, project_id))


def _enabled(row: WorkflowRow) -> WorkflowRow:
    if row.status != "active":
        hint = "create it anew to use it again" if row.status == "archived" else "loops workflows enable WORKFLOW"
        raise Conflict(f"workflow {row.name!r} is not active, so nothing starts it", hint=hint)
    return row


def _ids(
    connection: sa.Connection, project_id: str, workflow_id: str, period: tuple[datetime, datetime], after: str
) -> tuple[WorkflowRow, list[str]]:
    if period[0] >= period[1]:
        raise RequestError("the period ends before it begins", hint="give since before until", path="since")
    row = _enabled(workflows_store.get(connection, project_id, workflow_id))
    listener = listener_of(row)
    if listener is None:
        raise Conflict(f"workflow {row.name!r} is started by no delivery", hint="start it by hand: loops run WORKFLOW")
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
    return row, ids
