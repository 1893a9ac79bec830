"""Claiming occurrences: each is decided once, in the transaction that starts the run of it.

Any number of processes may look at once. Who has a schedule's row locked decides; the row of the occurrence and the id
of the run, both made of the schedule and the instant, let nobody decide again. A schedule that cannot fire is stopped
alone, with what is wrong; an occurrence that cannot start is refused alone.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import cast

import sqlalchemy as sa

from loops.definition.stored import stored_entry, stored_variables
from loops.errors import LoopsError, RequestError, RowHeld
from loops.event import Event
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.state import RunState
from loops.runs.variables import MOST_BYTES, size_of
from loops.schedules.draft import CatchUp
from loops.schedules.timetable import timetable
from loops.scheduling import is_started_by_schedules, rearm, timing_of
from loops.storable import storable_text
from loops.store import schedules as store
from loops.store.outage import is_outage
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.workflows import WorkflowRow
from triggers.dispatch import run_id
from triggers.schedule.event import to_event
from triggers.schedule.plan import Due, Outcome, plan
from triggers.starting import Start, put_undelivered, start_run
from triggers.verdict import Verdict

log = logging.getLogger("loops.schedule")

BATCH = 64
_MOST_REASON = 500
_TICK = timedelta(microseconds=1)
_INACTIVE = "the workflow was not active, or not started by schedules"


@dataclass(slots=True)
class Claimed:
    """What looking came to: how many schedules were due, how many occurrences had each outcome, and how long after its
    time each that ran was claimed, in seconds."""

    schedules: int = 0
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)

    def count(self, due: Due, now: datetime) -> None:
        """Count one that was decided."""
        self.outcomes[due.outcome] = self.outcomes.get(due.outcome, 0) + 1
        if due.outcome == "ran":
            self.delays.append((now - due.at).total_seconds())


class Occurrences:
    """Looks for what is due, and starts it. Neither masks nor claims hold for it; the quotas of its tasks do."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        observe: Callable[[Claimed], None] = lambda _claimed: None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._clock = clock
        self._observe = observe

    async def claim(self) -> int:
        """Decide all that is due now; how many schedules. Raises StoreBusy, and then what was not decided is still
        due."""
        total = 0
        while True:
            claimed = await self._writer.run(self._batch)
            total += claimed.schedules
            if claimed.schedules:
                self._observe(claimed)
            if claimed.schedules < BATCH or not claimed.outcomes:
                return total

    async def seconds_to_next(self) -> float | None:
        """How long it is to the next occurrence of any schedule, None where there is none."""
        found = await self._reader.read(store.earliest_due)
        return None if found is None else (found - self._clock.now()).total_seconds()

    async def arm(self) -> None:
        """Arm what is active and has no next occurrence: another release may know better when it is."""
        now, after = self._clock.now(), ""

        def arm(connection: sa.Connection) -> str | None:
            found = store.unarmed(connection, after, BATCH)
            for row, workflow in found:
                rearm(connection, row, workflow, now)
            return found[-1][0].id if len(found) == BATCH else None

        while (last := await self._writer.run(arm)) is not None:
            after = last

    def _batch(self, connection: sa.Connection) -> Claimed:
        claimed, now = Claimed(), self._clock.now()
        for row, workflow in store.due(connection, now, BATCH):
            claimed.schedules += 1
            try:
                with connection.begin_nested():
                    decided = self._fire(connection, row, workflow, now)
            except RowHeld:
                continue  # no fault of its own: it stays due, and the next look takes it again
            except Exception as error:
                if is_outage(error):
                    raise
                # Whatever else it is, it is this schedule's alone: the others fire.
                log.exception("schedule cannot fire", extra={"schedule_id": row.id})
                rest = None if row.next_due is None else row.next_due - _TICK
                store.update(connection, row.id, next_due=None, idle_since=rest, fault=_told(error))
                continue
            for due in decided:
                claimed.count(due, now)
        return claimed

    def _fire(self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, now: datetime) -> list[Due]:
        """What was decided about each occurrence that is over; the schedule is due at its next one."""
        if not is_started_by_schedules(workflow):
            store.update(connection, row.id, next_due=None, idle_since=now)
            return self._decided(connection, row, Due(row.next_due or now, "skipped", _INACTIVE))
        table = timetable(timing_of(row))
        planned = plan(table, row.next_due or now, cast("CatchUp", row.catch_up), now)
        decided: list[Due] = []
        for due in planned.occurrences:
            if due.outcome == "missed":
                decided += self._decided(connection, row, due)
            else:
                decided += self._start(connection, row, workflow, due, table.zone)
        status = "active" if planned.next_due else "completed"
        store.update(connection, row.id, next_due=planned.next_due, status=status)
        return decided

    def _start(
        self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, due: Due, zone: tzinfo
    ) -> list[Due]:
        event = to_event(row.id, due.at, zone, late=due.outcome == "late")
        try:
            with connection.begin_nested():
                run = run_id(event, row.project_id, workflow.id)
                decided = self._decided(connection, row, due, run)
                if decided:
                    self._start_run(connection, row, workflow, event, due)
                return decided
        except RowHeld:
            raise
        except LoopsError as error:
            return self._decided(connection, row, Due(due.at, "refused", _told(error)))

    def _start_run(
        self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, event: Event, due: Due
    ) -> None:
        now, state = self._clock.now(), initial_state(workflow, row)
        reason = f"its schedule was due{f'; {due.reason}' if due.reason else ''}"
        verdict = Verdict(workflow.id, workflow.version, "start", passed=True, reason=reason)
        put_undelivered(connection, row.project_id, event, verdict, now)
        start_run(connection, self._engine, Start(workflow, event, state), now)

    def _decided(self, connection: sa.Connection, row: ScheduleRow, due: Due, run: str | None = None) -> list[Due]:
        """What becomes of the occurrence; nothing where that was decided before."""
        decided = OccurrenceRow(row.id, due.at, due.outcome, due.reason, run, self._clock.now())
        return [due] if store.decide(connection, decided) else []


def initial_state(workflow: WorkflowRow, row: ScheduleRow) -> RunState:
    """The state that a run of an occurrence begins with: the workflow's defaults, and over them what the schedule sets.

    Out of the stored definition as it stands: a thousand loops may be due in one second, and compiling them would take
    longer than that. Whether the definition still can run is found out as the run begins. Raises RequestError where the
    variables are too large together.
    """
    defaults = {one["key"]: one.get("default", "") for one in stored_variables(workflow.definition)}
    variables = {**defaults, **row.variables}
    size = size_of(variables)
    if size > MOST_BYTES:
        raise RequestError(f"its variables take {size} bytes as JSON, over the limit of {MOST_BYTES}")
    return RunState(stored_entry(workflow.definition), variables=variables)


def _told(error: Exception) -> str:
    told = error.message if isinstance(error, LoopsError) else f"{type(error).__name__}: {error}"
    return storable_text(told[:_MOST_REASON])
