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
from loops.errors import LoopsError, RequestError, RowHeld, StoreBusy
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.state import RunState
from loops.runs.variables import MOST_BYTES, size_of
from loops.schedules.draft import CatchUp
from loops.schedules.timetable import timetable
from loops.scheduling import is_started_by_schedules, rearm, timing_of
from loops.storable import storable_text
from loops.store import schedules as store
from loops.store.schedules import ScheduleRow
from loops.store.workflows import WorkflowRow
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.schedule.event import to_event
from triggers.schedule.plan import Due, Outcome, Plan, plan
from triggers.schedule.sheet import Sheet
from triggers.starting import Start
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
    """Looks for what is due, and starts it. Of the brakes only overlap holds for it; the quotas of its tasks do too."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        observe: Callable[[Claimed], None] = lambda _claimed: None,
        cancel: Cancel = cancel_alone,
    ) -> None:
        """`cancel` ends runs that others replace."""
        self._writer = writer
        self._reader = reader
        self._starting = Starting(engine, cancel)
        self._clock = clock
        self._observe = observe
        self._held: list[ScheduleRow] = []  # of one batch

    async def claim(self) -> int:
        """Decide all that is due now; how many schedules. Raises StoreBusy, and then what was not decided is still
        due."""
        total, limit = 0, BATCH
        while True:
            try:
                claimed = await self._writer.run(lambda connection: self._batch(connection, limit))  # noqa: B023
            except StoreBusy:
                raise
            except RowHeld:
                return total  # somebody else is about to decide on the same: the next look finds what is left
            except Exception as error:
                # Whatever it is, it is one schedule's alone: the others fire, one by one from here on.
                log.exception("schedules cannot fire", extra={"schedules": ", ".join(row.id for row in self._held)})
                if limit == 1:
                    await self._stop(error)
                limit = 1
                continue
            self._observe(claimed)
            total += claimed.schedules
            if claimed.schedules < limit:
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

    async def _stop(self, error: Exception) -> None:
        """Let the schedule rest that alone made a batch fail. Where there is none, looking itself fails."""
        if not self._held:
            raise error
        row = self._held[0]
        await self._writer.run(lambda connection: _rest(connection, row, error))

    def _batch(self, connection: sa.Connection, limit: int) -> Claimed:
        claimed, now = Claimed(), self._clock.now()
        self._held = []
        found = store.due(connection, now, limit)
        self._held = [row for row, _ in found]
        claimed.schedules = len(found)
        planned = [(row, workflow, self._planned(connection, row, workflow, now)) for row, workflow in found]
        keys = [(row.id, due.at) for row, _, one in planned if one is not None for due in one.occurrences]
        known = store.known(connection, keys)
        sheet = Sheet(connection, self._starting, now)
        for row, workflow, one in planned:
            if one is None:
                continue
            for due in one.occurrences:
                if (row.id, due.at) not in known:
                    claimed.count(self._decide(sheet, row, workflow, due, one.zone), now)
            sheet.move(row, one.next_due, one.status)
        sheet.store()
        return claimed

    def _planned(
        self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, now: datetime
    ) -> "_Planned | None":
        """What is to be done about a schedule that is due; None of one that cannot be read, which is stopped."""
        due_at = row.next_due or now
        if not is_started_by_schedules(workflow):
            return _Planned((Due(due_at, "skipped", _INACTIVE),), None, "active", None)
        try:
            table = timetable(timing_of(row))
            found: Plan = plan(table, due_at, cast("CatchUp", row.catch_up), now)
        except (LoopsError, ValueError, LookupError, ArithmeticError) as error:
            log.warning("schedule cannot be read: %s", error, extra={"schedule_id": row.id})
            _rest(connection, row, error)
            return None
        return _Planned(found.occurrences, found.next_due, "active" if found.next_due else "completed", table.zone)

    def _decide(self, sheet: Sheet, row: ScheduleRow, workflow: WorkflowRow, due: Due, zone: tzinfo | None) -> Due:
        """Put on the sheet what becomes of an occurrence, which is told."""
        if due.outcome not in ("ran", "late") or zone is None:
            sheet.decide(row, due)
            return due
        event = to_event(row.id, due.at, zone, late=due.outcome == "late")
        try:
            state = initial_state(workflow, row)
            admitted = sheet.admission(workflow, event)
        except RowHeld:
            raise  # it stays due
        except LoopsError as error:
            refused = Due(due.at, "refused", _told(error))
            sheet.decide(row, refused)
            return refused
        if not admitted.passes:
            skipped = Due(due.at, "skipped", admitted.reason)
            sheet.decide(row, skipped)
            return skipped
        reason = "; ".join(filter(None, ("its schedule was due", due.reason, admitted.reason)))
        verdict = Verdict(workflow.id, workflow.version, "start", passed=True, reason=reason)
        sheet.start(row, due, Start(workflow, event, state), verdict, admitted)
        return due


@dataclass(frozen=True, slots=True)
class _Planned:
    """What is to be done about a schedule; without a zone none of its occurrences starts."""

    occurrences: tuple[Due, ...]
    next_due: datetime | None
    status: str
    zone: tzinfo | None


def initial_state(workflow: WorkflowRow, row: ScheduleRow) -> RunState:
    """The state that a run of an occurrence begins with: the workflow's defaults, and over them what the schedule sets.

    Out of the stored definition as it stands: a thousand loops may be due in one second, and compiling them would take
    longer than that. Whether the definition still can run is found out as the run begins. Raises RequestError where the
    variables are too large together, DefinitionError where there is no trigger.
    """
    defaults = {one["key"]: one.get("default", "") for one in stored_variables(workflow.definition)}
    variables = {**defaults, **row.variables}
    size = size_of(variables)
    if size > MOST_BYTES:
        raise RequestError(f"its variables take {size} bytes as JSON, over the limit of {MOST_BYTES}")
    return RunState(stored_entry(workflow.definition), variables=variables)


def _rest(connection: sa.Connection, row: ScheduleRow, error: Exception) -> None:
    """Let a schedule rest, with what is wrong, unless it moved meanwhile."""
    idle = None if row.next_due is None else row.next_due - _TICK
    found = store.get(connection, row.project_id, row.id, lock=True)
    if found.next_due == row.next_due:
        store.update(connection, row.id, next_due=None, idle_since=idle, fault=_told(error))


def _told(error: Exception) -> str:
    told = error.message if isinstance(error, LoopsError) else f"{type(error).__name__}: {error}"
    return storable_text(told[:_MOST_REASON])
