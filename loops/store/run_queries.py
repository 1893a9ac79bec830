"""Reading runs for people: lists, one run with its steps, counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound
from loops.store.runs import OPEN
from loops.store.tables import run_steps, runs, workflows
from loops.store.workflows import in_space

_COLUMNS = [
    runs.c[name]
    for name in (
        "id", "project_id", "workflow_id", "version", "source", "event_uuid", "event_name", "delivery_id", "replay",
        "space", "status", "reason", "seq", "position", "state", "wait", "deadline_at", "cancel_requested_at", "cost",
        "created_at", "started_at", "finished_at", "updated_at",
    )
]  # fmt: skip
_NAMED = [*_COLUMNS, workflows.c.name.label("workflow_name"), workflows.c.space.label("workflow_space")]


def _query() -> "sa.Select[Any]":
    return sa.select(*_NAMED).join(workflows, workflows.c.id == runs.c.workflow_id, isouter=True)


def get(connection: sa.Connection, project_id: str, run_id: str) -> Mapping[str, Any]:
    """One run. Raises NotFound."""
    row = connection.execute(_query().where(runs.c.id == run_id, runs.c.project_id == project_id)).mappings().first()
    if row is None:
        raise NotFound(f"there is no run {run_id!r} in project {project_id!r}")
    return dict(row)


def loop_names(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """What the loops of these runs are called, by the id of the run."""
    if not run_ids:
        return {}
    query = sa.select(runs.c.id, workflows.c.name).join(workflows, workflows.c.id == runs.c.workflow_id)
    return {row[0]: row[1] for row in connection.execute(query.where(runs.c.id.in_(run_ids)))}


def steps(connection: sa.Connection, run_id: str) -> list[Mapping[str, Any]]:
    """The steps that a run has taken, in their order."""
    rows = connection.execute(
        sa.select(run_steps).where(run_steps.c.run_id == run_id).order_by(run_steps.c.position, run_steps.c.started_at)
    )
    return [dict(row) for row in rows.mappings()]


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: tuple[datetime, str] | None = None,
    status: str | None = None,
    workflow_id: str | None = None,
    delivery_id: str | None = None,
    prefix: str | None = None,
    space: str | None = None,
) -> list[Mapping[str, Any]]:
    """Runs of a project, the newest first, below a (created_at, id); those whose id begins with `prefix`. Of a `space`
    are those that a task listed there, and those without any whose workflow lists its runs there."""
    query = _query().where(runs.c.project_id == project_id)
    if space is not None:
        query = query.where(sa.or_(runs.c.space == space, sa.and_(runs.c.space.is_(None), in_space(space))))
    if prefix is not None:
        query = query.where(runs.c.id.startswith(prefix, autoescape=True))
    for column, wanted in (
        (runs.c.status, status),
        (runs.c.workflow_id, workflow_id),
        (runs.c.delivery_id, delivery_id),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        at = sa.literal(before[0], runs.c.created_at.type)
        query = query.where(sa.tuple_(runs.c.created_at, runs.c.id) < sa.tuple_(at, sa.literal(before[1])))
    rows = connection.execute(query.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(limit))
    return [dict(row) for row in rows.mappings()]


def place(connection: sa.Connection, run_id: str) -> tuple[str, str]:
    """The project and the workflow that a run belongs to. Raises NotFound."""
    row = connection.execute(sa.select(runs.c.project_id, runs.c.workflow_id).where(runs.c.id == run_id)).first()
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    return row[0], row[1]


def counts(connection: sa.Connection) -> dict[str, int]:
    """How many runs are open, by status."""
    rows = connection.execute(
        sa.select(runs.c.status, sa.func.count()).where(runs.c.status.in_(OPEN)).group_by(runs.c.status)
    )
    return {row[0]: row[1] for row in rows}


def by_status(
    connection: sa.Connection, project_id: str, period: tuple[datetime, datetime], workflow_id: str | None = None
) -> dict[str, dict[str, int]]:
    """How many runs of each workflow began in a period, its end left out, by their status now."""
    query = sa.select(runs.c.workflow_id, runs.c.status, sa.func.count()).where(
        runs.c.project_id == project_id, runs.c.created_at >= period[0], runs.c.created_at < period[1]
    )
    if workflow_id is not None:
        query = query.where(runs.c.workflow_id == workflow_id)
    counted: dict[str, dict[str, int]] = {}
    for one, status, count in connection.execute(query.group_by(runs.c.workflow_id, runs.c.status)):
        counted.setdefault(one, {})[status] = count
    return counted


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The open runs of a workflow: how many, by status, and the ids of the first of them."""

    statuses: Mapping[str, int]
    ids: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.statuses)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.statuses.values())

    @property
    def words(self) -> str:
        """As in `1 running, 2 waiting`."""
        return ", ".join(f"{self.statuses[status]} {status}" for status in _OPEN_ORDER if status in self.statuses)


_OPEN_ORDER = ("running", "waiting", "queued")
_MOST_NAMED = 5


def under_way(connection: sa.Connection, workflow_id: str) -> UnderWay:
    """What runs of a workflow now."""
    here = (runs.c.workflow_id == workflow_id, runs.c.status.in_(OPEN))
    counted = connection.execute(sa.select(runs.c.status, sa.func.count()).where(*here).group_by(runs.c.status))
    statuses = {row[0]: row[1] for row in counted}
    if not statuses:
        return UnderWay({}, ())
    first = connection.execute(sa.select(runs.c.id).where(*here).order_by(runs.c.created_at).limit(_MOST_NAMED))
    return UnderWay(statuses, tuple(first.scalars()))
