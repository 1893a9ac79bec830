"""What requests to models spend, as SQL over a connection inside the caller's transaction.

Whoever puts aside what a request may use holds the project first, so that two tasks never see the same room.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from loops.store.once import insert_or_set
from loops.store.spending_tables import spendings

NANOS = Decimal(1_000_000_000)


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens and US dollars; `unpriced` is how many requests are in `tokens` whose price nobody knows."""

    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0


def put(
    connection: sa.Connection,
    *,
    task_id: str,
    key: str,
    project_id: str,
    workflow_id: str,
    tokens: int,
    cost: Decimal | None,
    settled: bool,
    now: datetime,
) -> None:
    """Store what a request may use, or really used, in place of what was stored of it. The instant of the first stays:
    it says when the room frees."""
    row = {
        "task_id": task_id,
        "key": key,
        "project_id": project_id,
        "workflow_id": workflow_id,
        "tokens": tokens,
        "nanos": None if cost is None else int((cost * NANOS).to_integral_value(rounding="ROUND_CEILING")),
        "is_settled": settled,
        "created_at": now,
    }
    connection.execute(insert_or_set(connection, spendings, ("tokens", "nanos", "is_settled")), row)


def remove(connection: sa.Connection, task_id: str, key: str) -> None:
    """Forget what was put aside for a request that was never made."""
    connection.execute(spendings.delete().where(spendings.c.task_id == task_id, spendings.c.key == key))


def of_task(connection: sa.Connection, task_id: str, *, but: str = "") -> Spent:
    """All that a task has spent or put aside, without the request `but`."""
    return _sum(connection, spendings.c.task_id == task_id, spendings.c.key != but)


def since(
    connection: sa.Connection, column: str, owner: str, moment: datetime, *, but: tuple[str, str] = ("", "")
) -> Spent:
    """What a workflow or project (`column`, `owner`) has spent or put aside after `moment`, without the request `but`
    (its task and key)."""
    other = sa.or_(spendings.c.task_id != but[0], spendings.c.key != but[1])
    return _sum(connection, spendings.c[column] == owner, spendings.c.created_at > moment, other)


def _sum(connection: sa.Connection, *where: "sa.ColumnElement[bool]") -> Spent:
    row = connection.execute(sa.select(*_SUMS).where(*where)).one()
    return _spent(row)


_SUMS = (
    sa.func.sum(spendings.c.tokens),
    sa.func.sum(spendings.c.nanos),
    sa.func.count().filter(spendings.c.nanos.is_(None), spendings.c.tokens > 0),
)


def _spent(row: Any) -> Spent:  # noqa: ANN401 - a piece of a row
    return Spent(int(row[0] or 0), Decimal(int(row[1] or 0)) / NANOS, int(row[2]))


def by_workflows(connection: sa.Connection, project_id: str, moment: datetime) -> Mapping[str, Spent]:
    """What each workflow of a project has spent or put aside after `moment`."""
    here = (spendings.c.project_id == project_id, spendings.c.created_at > moment)
    rows = connection.execute(sa.select(spendings.c.workflow_id, *_SUMS).where(*here).group_by(spendings.c.workflow_id))
    return {row[0]: _spent(row[1:]) for row in rows}


def moments(
    connection: sa.Connection, column: str, owner: str, moment: datetime
) -> list[tuple[datetime, int, Decimal]]:
    """When a workflow or project spent what after `moment`, oldest first."""
    query = sa.select(spendings.c.created_at, spendings.c.tokens, spendings.c.nanos).where(
        spendings.c[column] == owner, spendings.c.created_at > moment
    )
    rows = connection.execute(query.order_by(spendings.c.created_at))
    return [(row[0], row[1], Decimal(row[2] or 0) / NANOS) for row in rows]
