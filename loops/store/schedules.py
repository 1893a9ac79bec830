"""Schedules and their occurrences, as SQL over a connection inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound
from loops.store.once import insert_once
from loops.store.schedule_tables import occurrences, schedules
from loops.store.tables import workflows
from loops.store.workflows import WorkflowRow


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A stored schedule; see the table."""

    id: str
    project_id: str
    workflow_id: str
    rrule: str | None
    cron: str | None
    starts_at: str | None
    timezone: str
    variables: Mapping[str, Any]
    catch_up: str
    status: str
    next_due: datetime | None
    idle_since: datetime | None
    fault: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """What became of one occurrence."""

    schedule_id: str
    due_at: datetime
    outcome: str
    reason: str
    run_id: str | None
    decided_at: datetime


_AT_ONCE = 500  # a database takes so many values in a statement, and not many more
_COLUMNS = [schedules.c[name] for name in ScheduleRow.__dataclass_fields__]
_WORKFLOW = [workflows.c[name] for name in WorkflowRow.__dataclass_fields__]
_OCCURRENCE = [occurrences.c[name] for name in OccurrenceRow.__dataclass_fields__]


def insert(connection: sa.Connection, row: ScheduleRow) -> None:
    """Store a new schedule."""
    connection.execute(
        schedules.insert().values({name: getattr(row, name) for name in ScheduleRow.__dataclass_fields__})
    )


def update(connection: sa.Connection, schedule_id: str, **values: Any) -> None:  # noqa: ANN401
    """Change columns of a schedule."""
    connection.execute(schedules.update().where(schedules.c.id == schedule_id).values(**values))


def delete(connection: sa.Connection, schedule_id: str) -> None:
    """Remove a schedule with what is known of its occurrences."""
    connection.execute(occurrences.delete().where(occurrences.c.schedule_id == schedule_id))
    connection.execute(schedules.delete().where(schedules.c.id == schedule_id))


def get(connection: sa.Connection, project_id: str, schedule_id: str, *, lock: bool = False) -> ScheduleRow:
    """The schedule with this id in this project. Raises NotFound."""
    query = sa.select(*_COLUMNS).where(schedules.c.id == schedule_id, schedules.c.project_id == project_id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFound(f"there is no schedule {schedule_id!r} in project {project_id!r}", hint="see: loops schedules")
    return ScheduleRow(*row)


def of_workflow(connection: sa.Connection, workflow_id: str, *, lock: bool = False) -> list[ScheduleRow]:
    """The schedules of a workflow, the oldest first."""
    query = sa.select(*_COLUMNS).where(schedules.c.workflow_id == workflow_id)
    query = query.order_by(schedules.c.created_at, schedules.c.id)
    return [ScheduleRow(*row) for row in connection.execute(query.with_for_update() if lock else query)]


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: tuple[datetime, str] | None = None,
    workflow_id: str | None = None,
    status: str | None = None,
) -> list[tuple[ScheduleRow, WorkflowRow]]:
    """Schedules of a project with their workflows, the newest first, below a (created_at, id)."""
    query = _with_workflows().where(schedules.c.project_id == project_id)
    if workflow_id is not None:
        query = query.where(schedules.c.workflow_id == workflow_id)
    if status is not None:
        query = query.where(schedules.c.status == status)
    if before is not None:
        at = sa.literal(before[0], schedules.c.created_at.type)
        query = query.where(sa.tuple_(schedules.c.created_at, schedules.c.id) < sa.tuple_(at, sa.literal(before[1])))
    query = query.order_by(schedules.c.created_at.desc(), schedules.c.id.desc()).limit(limit)
    return _pairs(connection, query)


def earliest_due(connection: sa.Connection) -> datetime | None:
    """The instant of the next occurrence of any schedule."""
    found: datetime | None = connection.execute(
        sa.select(schedules.c.next_due).where(schedules.c.next_due.is_not(None)).order_by(schedules.c.next_due).limit(1)
    ).scalar()
    return found


def due(connection: sa.Connection, now: datetime, limit: int) -> list[tuple[ScheduleRow, WorkflowRow]]:
    """Schedules that are due with their workflows, the longest due first, ours until the transaction ends; those that
    another process has are passed over."""
    query = _with_workflows().where(schedules.c.next_due <= now).order_by(schedules.c.next_due).limit(limit)
    return _pairs(connection, query.with_for_update(of=schedules, skip_locked=True))


def unarmed(connection: sa.Connection, after: str, limit: int) -> list[tuple[ScheduleRow, WorkflowRow]]:
    """Active schedules of active workflows that nothing is due of, with ids above `after`, ours until the transaction
    ends."""
    query = _with_workflows().where(
        schedules.c.status == "active",
        schedules.c.next_due.is_(None),
        schedules.c.id > after,
        workflows.c.status == "active",
    )
    query = query.order_by(schedules.c.id).limit(limit)
    return _pairs(connection, query.with_for_update(of=schedules, skip_locked=True))


def _with_workflows() -> "sa.Select[Any]":
    return sa.select(*_COLUMNS, *_WORKFLOW).join(workflows, workflows.c.id == schedules.c.workflow_id)


def _pairs(connection: sa.Connection, query: "sa.Select[Any]") -> list[tuple[ScheduleRow, WorkflowRow]]:
    count = len(_COLUMNS)
    return [(ScheduleRow(*row[:count]), WorkflowRow(*row[count:])) for row in connection.execute(query)]


def move(connection: sa.Connection, moves: Sequence[Mapping[str, Any]]) -> None:
    """Say when schedules are due next: `schedule`, `due`, `status` and `idle` (see the table) of each."""
    statement = schedules.update().where(schedules.c.id == sa.bindparam("schedule"))
    named = {"next_due": "due", "status": "status", "idle_since": "idle"}
    values = {column: sa.bindparam(name, type_=schedules.c[column].type) for column, name in named.items()}
    connection.execute(statement.values(values), list(moves))


def decide(connection: sa.Connection, rows: Sequence[OccurrenceRow]) -> None:
    """Store what becomes of occurrences that nobody decided before."""
    names = OccurrenceRow.__dataclass_fields__
    values = [{name: getattr(row, name) for name in names} for row in rows]
    connection.execute(insert_once(connection, occurrences), values)


def known(connection: sa.Connection, keys: Sequence[tuple[str, datetime]]) -> set[tuple[str, datetime]]:
    """Which occurrences, by schedule and instant, were decided before."""
    found: set[tuple[str, datetime]] = set()
    here = sa.tuple_(occurrences.c.schedule_id, occurrences.c.due_at)
    for start in range(0, len(keys), _AT_ONCE):
        query = sa.select(*here.clauses).where(here.in_(keys[start : start + _AT_ONCE]))
        found.update((row[0], row[1]) for row in connection.execute(query))
    return found


def decided(
    connection: sa.Connection, schedule_id: str, *, limit: int, before: datetime | None = None
) -> list[OccurrenceRow]:
    """The occurrences of a schedule that were decided, the latest first, those due before an instant."""
    query = sa.select(*_OCCURRENCE).where(occurrences.c.schedule_id == schedule_id)
    if before is not None:
        query = query.where(occurrences.c.due_at < before)
    query = query.order_by(occurrences.c.due_at.desc()).limit(limit)
    return [OccurrenceRow(*row) for row in connection.execute(query)]
