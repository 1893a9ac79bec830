"""The life of schedules: create, change, pause, resume, delete, and what becomes of them as their workflow changes.

A schedule is armed (it has a next occurrence) while it is active, and its workflow is active and started by schedules.
Whenever it is armed it begins from now: what lay before is never fired, and told as skipped.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from loops.definition.findings import shown
from loops.definition.stored import stored_trigger, stored_variables
from loops.errors import Conflict, Fault, ScheduleError
from loops.event import JsonValue
from loops.ports import Clock, Reader, Writer
from loops.schedules.draft import KEYS, Draft, read_draft
from loops.schedules.file import MOST, SCHEDULES, Entry
from loops.schedules.timetable import Timing, timetable
from loops.store import schedules as store
from loops.store import workflows as workflows_store
from loops.store.ids import new_id
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop

T = TypeVar("T")

MOST_TOLD = 100
"""How many occurrences that did not run are told of at once: the last ones."""

_LONGEST_ENTRY = 500
_TICK = timedelta(microseconds=1)
_PAUSED, _INACTIVE = "the schedule was paused", "the workflow was not active"


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    """A stored schedule, and what is odd about it."""

    row: ScheduleRow
    warnings: tuple[Fault, ...] = ()


def timing_of(row: ScheduleRow) -> Timing:
    """What decides when a stored schedule occurs."""
    return Timing(row.timezone, row.rrule, row.cron, row.starts_at)


def is_started_by_schedules(workflow: WorkflowRow) -> bool:
    """Whether occurrences start runs of the workflow now."""
    return workflow.status == "active" and stored_trigger(workflow.definition).get("type") == "schedule"


def rearm(connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, now: datetime) -> bool:
    """Arm a schedule that rests although it is active, from now; whether that changed it."""
    return _store(connection, row, _armed(dataclasses.replace(row, fault=""), workflow, now)) != row


class Schedules:
    """Raises ScheduleError with every fault, NotFound, or Conflict."""

    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed` is called after something may have become due at another time."""
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._changed = changed

    async def _write(self, fn: Callable[[sa.Connection], T]) -> T:
        result = await self._writer.run(fn)
        self._changed()
        return result

    async def draft(self, project_id: str, workflow_id: str, given: Mapping[str, JsonValue]) -> Draft:
        """What a schedule of this workflow would be. Stores nothing."""
        workflow = await self._reader.read(lambda c: workflows_store.get(c, project_id, workflow_id))
        return await self._draft(workflow, given, self._clock.now())

    async def _draft(self, workflow: WorkflowRow, given: Mapping[str, JsonValue], now: datetime | None) -> Draft:
        # Beside the event loop: a rule may take some time to be judged.
        of_loop = workflow.origin_product == "loops"
        declared = {str(one["key"]) for one in stored_variables(workflow.definition)}
        return await off_loop(lambda: read_draft(given, now, of_loop=of_loop, declared=declared))

    async def create(self, project_id: str, workflow_id: str, given: Mapping[str, JsonValue]) -> SavedSchedule:
        """Store a new schedule of a workflow that schedules start."""
        draft = await self.draft(project_id, workflow_id, given)

        def create(connection: sa.Connection) -> SavedSchedule:
            workflow = workflows_store.get(connection, project_id, workflow_id, lock=True)
            _require_trigger(workflow)
            if len(store.of_workflow(connection, workflow_id)) >= MOST:
                raise Conflict(f"workflow {workflow.name!r} has {MOST} schedules, the most", hint="delete one of them")
            return SavedSchedule(self._create(connection, workflow, draft, "active"), draft.warnings)

        return await self._write(create)

    def _create(self, connection: sa.Connection, workflow: WorkflowRow, draft: Draft, status: str) -> ScheduleRow:
        now, timing = self._clock.now(), draft.timing
        row = ScheduleRow(
            id=new_id(),
            project_id=workflow.project_id,
            workflow_id=workflow.id,
            rrule=timing.rrule,
            cron=timing.cron,
            starts_at=timing.starts_at,
            timezone=timing.timezone,
            variables=draft.variables,
            catch_up=draft.catch_up,
            status=status,
            next_due=None,
            idle_since=now,
            fault="",
            created_at=now,
            updated_at=now,
        )
        row = _armed(row, workflow, now)
        store.insert(connection, row)
        return row

    async def update(self, project_id: str, schedule_id: str, given: Mapping[str, JsonValue]) -> SavedSchedule:
        """Change what is given. Another timing begins from now, also of a schedule that was over; a paused one stays
        so. Raises Conflict where somebody else changed it at the same time."""
        read, workflow = await self._reader.read(lambda c: _with_workflow(c, project_id, schedule_id))
        wanted = {**_given(read), **_with_replaced(given)}
        draft = await self._draft(workflow, wanted, None)
        if draft.timing != timing_of(read):  # one that is over may still change what its runs began with
            draft = await self._draft(workflow, wanted, self._clock.now())

        def update(connection: sa.Connection) -> SavedSchedule:
            row, workflow = _with_workflow(connection, project_id, schedule_id, lock=True)
            if _given(row) != _given(read):
                raise Conflict(f"schedule {schedule_id} was changed at the same time", hint="look at it, and try again")
            return SavedSchedule(self._update(connection, row, workflow, draft), draft.warnings)

        return await self._write(update)

    def _update(self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, draft: Draft) -> ScheduleRow:
        now, timing = self._clock.now(), draft.timing
        changed = dataclasses.replace(
            row,
            rrule=timing.rrule,
            cron=timing.cron,
            starts_at=timing.starts_at,
            timezone=timing.timezone,
            variables=draft.variables,
            catch_up=draft.catch_up,
            updated_at=now,
        )
        if _given(changed) == _given(row):
            return row
        if timing != timing_of(row):
            status = "active" if row.status == "completed" else row.status
            changed = dataclasses.replace(changed, status=status, next_due=None, idle_since=now, fault="")
            changed = _armed(changed, workflow, now)
        return _store(connection, row, changed)

    async def pause(self, project_id: str, schedule_id: str) -> ScheduleRow:
        """Fire nothing until it is resumed."""
        return await self._turn(project_id, schedule_id, "paused")

    async def resume(self, project_id: str, schedule_id: str) -> ScheduleRow:
        """Go on from now; what lay in the pause is not fired."""
        return await self._turn(project_id, schedule_id, "active")

    async def _turn(self, project_id: str, schedule_id: str, status: str) -> ScheduleRow:
        def turn(connection: sa.Connection) -> ScheduleRow:
            row, workflow = _with_workflow(connection, project_id, schedule_id, lock=True)
            if row.status == "completed":
                raise Conflict(
                    f"schedule {schedule_id} is over: it has no further occurrence",
                    hint="give it another rule or start, and it goes on",
                )
            return self._turned(connection, row, workflow, status)

        return await self._write(turn)

    def _turned(self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, status: str) -> ScheduleRow:
        if row.status == status:
            return row
        now = self._clock.now()
        changed = dataclasses.replace(row, status=status, fault="", updated_at=now)
        if status == "paused":
            return _store(connection, row, _disarmed(changed, now))
        armed = _armed(changed, workflow, now)
        _tell_skipped(connection, row, armed, _PAUSED, now)
        return _store(connection, row, armed)

    async def delete(self, project_id: str, schedule_id: str) -> None:
        """Remove it; runs that it started go on."""

        def delete(connection: sa.Connection) -> None:
            store.get(connection, project_id, schedule_id, lock=True)
            store.delete(connection, schedule_id)

        await self._write(delete)

    def follow(self, connection: sa.Connection, workflow: WorkflowRow) -> None:
        """The workflow was changed in this transaction: arm its schedules from now, or let them rest."""
        now, starts = self._clock.now(), is_started_by_schedules(workflow)
        for row in store.of_workflow(connection, workflow.id, lock=True):
            if not starts and row.next_due is not None:
                _store(connection, row, _disarmed(row, now))
            elif starts and row.next_due is None and row.status == "active":
                armed = _armed(dataclasses.replace(row, fault=""), workflow, now)
                _tell_skipped(connection, row, armed, _INACTIVE, now)
                _store(connection, row, armed)

    def lacking(self, connection: sa.Connection, workflow: WorkflowRow) -> tuple[Fault, ...]:
        """A warning where a workflow would wait for schedules, and has none."""
        kind = stored_trigger(workflow.definition).get("type")
        if kind != "schedule" or store.of_workflow(connection, workflow.id):
            return ()
        hint = "create one: loops schedules create WORKFLOW --rrule RRULE --starts-at WHEN"
        return (Fault(SCHEDULES, "it has none yet, so nothing starts it", hint),)

    def put(
        self, connection: sa.Connection, workflow: WorkflowRow, entries: tuple[Entry, ...]
    ) -> tuple[bool, tuple[Fault, ...]]:
        """Make the workflow's schedules be those of its file; whether that changed any, and what is odd. Those with the
        same timing are the same schedule, and go on."""
        if entries:
            _require_trigger(workflow, SCHEDULES)
        known = {timing_of(row): row for row in store.of_workflow(connection, workflow.id, lock=True)}
        changed, warnings = False, []
        for entry in entries:
            row = known.pop(entry.timing, None)
            if row is not None:
                changed |= self._settle(connection, row, workflow, entry)
            elif timetable(entry.timing).next_after(self._clock.now()) is None:
                warnings.append(Fault(entry.path, "has no future occurrence, and was not created"))
                continue
            else:
                changed = True
                self._create(connection, workflow, entry.draft, "paused" if entry.status == "paused" else "active")
            warnings += entry.warnings
        for row in known.values():
            changed = True
            warnings.append(_removed(row, "is removed"))
            store.delete(connection, row.id)
        return changed, tuple(warnings)

    def would_remove(
        self, connection: sa.Connection, workflow: WorkflowRow, entries: tuple[Entry, ...]
    ) -> tuple[Fault, ...]:
        """What making the workflow's schedules be those of a file would take away."""
        kept = {entry.timing for entry in entries}
        rows = store.of_workflow(connection, workflow.id)
        return tuple(_removed(row, "would be removed") for row in rows if timing_of(row) not in kept)

    def _settle(self, connection: sa.Connection, row: ScheduleRow, workflow: WorkflowRow, entry: Entry) -> bool:
        after = self._update(connection, row, workflow, entry.draft)
        if entry.status in ("active", "paused") and after.status != "completed":
            after = self._turned(connection, after, workflow, entry.status)
        return after != row


def _removed(row: ScheduleRow, what: str) -> Fault:
    """What a file does to a schedule that it does not have."""
    begins = f", from {row.starts_at}" if row.starts_at else ""
    told = f"{row.rrule or row.cron} ({row.timezone}{begins}) {what}: the file does not have it"
    entry = json.dumps(_given(row), ensure_ascii=False)
    return Fault(SCHEDULES, told, f"to have it, put it into the schedules of the file: {shown(entry, _LONGEST_ENTRY)}")


def _require_trigger(workflow: WorkflowRow, path: str = "") -> None:
    kind = stored_trigger(workflow.definition).get("type")
    if workflow.status == "archived":
        raise Conflict(f"workflow {workflow.name!r} is archived", hint="create it anew to use it again")
    if kind != "schedule":
        raise ScheduleError.at(
            path, f"workflow {workflow.name!r} is not started by schedules: its trigger is {kind}",
            'give it the trigger {"type": "schedule"}',
        )  # fmt: skip


def _with_workflow(
    connection: sa.Connection, project_id: str, schedule_id: str, *, lock: bool = False
) -> tuple[ScheduleRow, WorkflowRow]:
    """A schedule and its workflow. The workflow is locked first, as whoever changes it does."""
    row = store.get(connection, project_id, schedule_id)
    workflow = workflows_store.get(connection, project_id, row.workflow_id, lock=lock)
    return (store.get(connection, project_id, schedule_id, lock=True) if lock else row), workflow


def _given(row: ScheduleRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KEYS if getattr(row, name) is not None}


def _with_replaced(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A change in which a rule takes the place of a cron line, and the reverse."""
    others: dict[str, JsonValue] = {
        other: None for one, other in (("rrule", "cron"), ("cron", "rrule")) if given.get(one) is not None
    }
    return {**others, **given}


def _armed(row: ScheduleRow, workflow: WorkflowRow, now: datetime) -> ScheduleRow:
    """The row with its next occurrence after now, or resting where nothing is to fire."""
    if row.status != "active" or not is_started_by_schedules(workflow):
        return row
    try:
        next_due = timetable(timing_of(row)).next_after(now)
    except ScheduleError as error:
        return dataclasses.replace(row, fault=error.message)
    if next_due is None:
        return dataclasses.replace(row, status="completed", next_due=None)
    return dataclasses.replace(row, next_due=next_due, idle_since=None)


def _disarmed(row: ScheduleRow, now: datetime) -> ScheduleRow:
    """The row at rest. What was due and had not fired yet belongs to what is skipped."""
    if row.next_due is None:
        return row
    return dataclasses.replace(row, next_due=None, idle_since=min(now, row.next_due - _TICK))


def _tell_skipped(
    connection: sa.Connection, before: ScheduleRow, after: ScheduleRow, reason: str, now: datetime
) -> None:
    """What the schedule would have fired while it rested, once it rests no more."""
    if before.idle_since is None or (after.status == "active" and after.next_due is None):
        return
    skipped = timetable(timing_of(after)).latest(before.idle_since, now, MOST_TOLD)
    if skipped:
        rows = [OccurrenceRow(after.id, due_at, "skipped", reason, None, now) for due_at in skipped]
        store.decide(connection, rows)


def _store(connection: sa.Connection, before: ScheduleRow, after: ScheduleRow) -> ScheduleRow:
    changes = {
        field.name: getattr(after, field.name)
        for field in dataclasses.fields(ScheduleRow)
        if getattr(after, field.name) != getattr(before, field.name)
    }
    if changes:
        store.update(connection, after.id, **changes)
    return after
