"""Reading tasks for people: what they spent, and what counts against the quotas."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.store.tables import events, runs, workflows
from loops.store.task_tables import task_rounds, tasks


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens and USD. `cost` is what is known of it, `unknown` how many tasks or rounds have no known price.

    `cached` is the part of the input that came from a cache; None where only the sums of whole tasks are at hand.
    """

    input: int = 0
    output: int = 0
    cached: int | None = None
    cost: float = 0.0
    unknown: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        cached = None if self.cached is None and other.cached is None else (self.cached or 0) + (other.cached or 0)
        return Spent(
            self.input + other.input,
            self.output + other.output,
            cached,
            self.cost + other.cost,
            self.unknown + other.unknown,
        )

    @property
    def known(self) -> float | None:
        """All that it cost, None where a part of that is not known."""
        return None if self.unknown else self.cost


NOTHING = Spent()

# Written out, not bound: SQLite uses the index of open tasks only for a condition that it can read.
_OPEN = tasks.c.status.in_(tuple(sa.literal_column(f"'{name}'") for name in ("queued", "running")))
_SUMS = (
    sa.func.sum(tasks.c.input_tokens),
    sa.func.sum(tasks.c.output_tokens),
    sa.func.sum(tasks.c.cost),
    # A task that never asked a model has no price and needs none.
    sa.func.count().filter(tasks.c.cost.is_(None), tasks.c.rounds > 0, ~_OPEN),
)


def spent_so_far(connection: sa.Connection, task_ids: Collection[str]) -> dict[str, Spent]:
    """What each of these tasks has spent in the rounds that were kept: of one that is not over the row does not say."""
    if not task_ids:
        return {}
    rows = connection.execute(
        sa.select(
            task_rounds.c.task_id,
            *(task_rounds.c.body[("reply", "usage", name)].as_integer() for name in ("input", "output", "cache_read")),
            task_rounds.c.body["cost"].as_string(),
        ).where(task_rounds.c.task_id.in_(task_ids))
    )
    grouped: dict[str, list[Any]] = defaultdict(list)
    for task_id, *spent in rows:
        grouped[task_id].append(spent)
    return {task_id: _total(spent) for task_id, spent in grouped.items()}


def _total(rounds: Iterable[tuple[int, int, int, str | None]]) -> Spent:
    kept = list(rounds)
    return Spent(
        input=sum(one[0] for one in kept),
        output=sum(one[1] for one in kept),
        cached=sum(one[2] for one in kept),
        cost=float(sum(float(one[3]) for one in kept if one[3] is not None)),
        unknown=sum(one[3] is None for one in kept),
    )


def spent_by_runs(connection: sa.Connection, run_ids: Collection[str]) -> dict[str, Spent]:
    """What the tasks of each of these runs spent that have ended; nothing for a run without tasks."""
    if not run_ids:
        return {}
    query = sa.select(tasks.c.run_id, *_SUMS).where(tasks.c.run_id.in_(run_ids)).group_by(tasks.c.run_id)
    return {row[0]: _sums(row[1:]) for row in connection.execute(query)}


def spent_by_deliveries(connection: sa.Connection, delivery_ids: Collection[str]) -> dict[str, Spent]:
    """What the tasks of all runs of each of these deliveries spent that have ended."""
    if not delivery_ids:
        return {}
    query = sa.select(runs.c.delivery_id, *_SUMS).join(tasks, tasks.c.run_id == runs.c.id)
    query = query.where(runs.c.delivery_id.in_(delivery_ids)).group_by(runs.c.delivery_id)
    return {row[0]: _sums(row[1:]) for row in connection.execute(query)}


def spent_since(connection: sa.Connection, workflow_id: str, since: datetime) -> tuple[Spent, int]:
    """What the tasks of a workflow that were created since then spent, and how many they are."""
    query = sa.select(*_SUMS, sa.func.count()).where(tasks.c.workflow_id == workflow_id, tasks.c.created_at >= since)
    row = connection.execute(query).one()
    return _sums(row[:4]), int(row[4])


def spent_by_workflows(
    connection: sa.Connection, workflow_ids: Collection[str], period: tuple[datetime, datetime]
) -> dict[str, tuple[Spent, int]]:
    """What the tasks of each of these workflows that were created in a period, its end left out, spent, and how many
    they are."""
    if not workflow_ids:
        return {}
    query = sa.select(tasks.c.workflow_id, *_SUMS, sa.func.count()).where(
        tasks.c.workflow_id.in_(workflow_ids), tasks.c.created_at >= period[0], tasks.c.created_at < period[1]
    )
    rows = connection.execute(query.group_by(tasks.c.workflow_id))
    return {row[0]: (_sums(row[1:5]), int(row[5])) for row in rows}


def _sums(row: Any) -> Spent:  # noqa: ANN401 - a piece of a row
    return Spent(int(row[0] or 0), int(row[1] or 0), None, float(row[2] or 0.0), int(row[3]))


def created_since(connection: sa.Connection, project_id: str, since: datetime) -> dict[str, int]:
    """How many tasks each workflow of the project created after `since`; workflows without any are left out."""
    query = sa.select(tasks.c.workflow_id, sa.func.count()).where(
        tasks.c.project_id == project_id, tasks.c.created_at > since
    )
    return {row[0]: int(row[1]) for row in connection.execute(query.group_by(tasks.c.workflow_id))}


def under_way(connection: sa.Connection, project_id: str) -> dict[str, int]:
    """How many tasks of each workflow of the project are queued or running."""
    query = sa.select(tasks.c.workflow_id, sa.func.count()).where(tasks.c.project_id == project_id, _OPEN)
    return {row[0]: int(row[1]) for row in connection.execute(query.group_by(tasks.c.workflow_id))}


def workflow_names(connection: sa.Connection, workflow_ids: Collection[str]) -> dict[str, str]:
    """The names of these workflows."""
    if not workflow_ids:
        return {}
    query = sa.select(workflows.c.id, workflows.c.name).where(workflows.c.id.in_(workflow_ids))
    return {row[0]: row[1] for row in connection.execute(query)}


def given_of(connection: sa.Connection, task_id: str) -> Mapping[str, Any]:
    """What the task's equipment had for it when it began; nothing of one that has not. See tasks.keep_given."""
    return connection.execute(sa.select(tasks.c.given).where(tasks.c.id == task_id)).scalar() or {}


def event_of(connection: sa.Connection, run: Mapping[str, Any]) -> bytes | None:
    """The body of the event that started a run, compressed; None where it is no longer kept."""
    same = (
        events.c.project_id == run["project_id"],
        events.c.source == run["source"],
        events.c.uuid == run["event_uuid"],
    )
    body: bytes | None = connection.execute(sa.select(events.c.body).where(*same)).scalar()
    return body
