"""What others ask of a run: to wake, to be cancelled, to bear a cost. SQL inside the caller's transaction.

A transaction that changes a run and what it waits for takes the run first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict, NotFound
from loops.event import JsonValue
from loops.runs.state import OVER, Wait
from loops.store.held_rows import never_waiting
from loops.store.runs import OPEN, end_waiting, read_wait
from loops.store.tables import runs


def wake_waiting(
    connection: sa.Connection, run_id: str, step_id: str, payload: Mapping[str, JsonValue], now: datetime
) -> int | None:
    """Wake a run that waits at this step, once: the seq of the segment to make due, None when it does not."""
    row = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.status == "waiting", runs.c.position == step_id)
        .values(status="queued", wake=dict(payload), updated_at=now)
        .returning(runs.c.seq)
    ).first()
    return None if row is None else int(row[0])


def hold(connection: sa.Connection, run_id: str) -> None:
    """Hold a run's row until the transaction ends. Whoever changes a run and what it waits for takes the run first."""
    connection.execute(sa.select(runs.c.id).where(runs.c.id == run_id).with_for_update())


def hold_now(connection: sa.Connection, run_id: str) -> None:
    """Hold a run's row until the transaction ends, without waiting for it. Raises RowHeld."""
    with never_waiting():
        connection.execute(sa.select(runs.c.id).where(runs.c.id == run_id).with_for_update(nowait=True))


def held_to_act(connection: sa.Connection, run_id: str) -> bool:
    """Hold a run's row until the transaction ends, without waiting for it: whether something may still be done for the
    run. It may not where somebody else holds the row, nor between a request to cancel it and its end; it may for one
    that is over or no longer kept, since a person may ask for what it left."""
    columns = (runs.c.status, runs.c.cancel_requested_at)
    query = sa.select(*columns).where(runs.c.id == run_id)
    row = connection.execute(query.with_for_update(skip_locked=True)).first()
    if row is None:
        return connection.execute(query).first() is None
    return row[1] is None or row[0] in OVER


def add_cost(connection: sa.Connection, run_id: str, cost: float) -> None:
    """Add to what a run cost, in USD."""
    connection.execute(runs.update().where(runs.c.id == run_id).values(cost=runs.c.cost + cost))


def list_in_space(connection: sa.Connection, run_id: str, space: str) -> None:
    """List a run in the space of this id; the first that is named stays."""
    connection.execute(runs.update().where(runs.c.id == run_id, runs.c.space.is_(None)).values(space=space))


def wake(connection: sa.Connection, run_id: str, payload: Mapping[str, JsonValue], now: datetime) -> int:
    """Wake a waiting run, once: the seq of the segment to make due. Raises NotFound or Conflict."""
    row = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.status == "waiting")
        .values(status="queued", wake=dict(payload), updated_at=now)
        .returning(runs.c.seq)
    ).first()
    if row is None:
        status = connection.execute(sa.select(runs.c.status).where(runs.c.id == run_id)).scalar()
        if status is None:
            raise NotFound(f"there is no run {run_id}")
        raise Conflict(f"run {run_id} is {status}; only a waiting run can be resumed")
    seq: int = row[0]
    return seq


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """What asking for a cancellation came to: over at once, or a running segment has been asked to stop."""

    status: str
    seq: int


def request_cancel(
    connection: sa.Connection,
    run_id: str,
    now: datetime,
    stop: Callable[[sa.Connection, Wait], bool],
    reason: str = "cancelled on request",
) -> CancelRequest:
    """Cancel a run that does not act now, or ask one that acts to stop; so also one that waits for something which
    `stop` cannot stop at once: that wakes the run when it has ended. Raises NotFound or Conflict."""
    columns = (runs.c.status, runs.c.seq, runs.c.wait, runs.c.deadline_at)
    row = connection.execute(sa.select(*columns).where(runs.c.id == run_id).with_for_update()).first()
    if row is None:
        raise NotFound(f"there is no run {run_id}")
    status, seq = row[0], row[1]
    if status in OVER:
        raise Conflict(f"run {run_id} is {status} already")
    wait = read_wait(row[2], row[3]) if status == "waiting" else None
    if wait is not None and not stop(connection, wait):
        status = "running"
    values: dict[str, Any] = {"cancel_requested_at": now, "updated_at": now}
    if status != "running":
        values |= {"status": "cancelled", "reason": reason, "finished_at": now, "deadline_at": None}
        end_waiting(connection, run_id, "cancelled", now)
    connection.execute(runs.update().where(runs.c.id == run_id).values(**values))
    return CancelRequest("running" if status == "running" else "cancelled", seq)


def held_to_cancel(connection: sa.Connection, workflow_id: str, limit: int) -> list[str]:
    """The first open runs of a workflow that nobody has asked to stop, held until the transaction ends."""
    here = (runs.c.workflow_id == workflow_id, runs.c.status.in_(OPEN), runs.c.cancel_requested_at.is_(None))
    found = connection.execute(sa.select(runs.c.id).where(*here).order_by(runs.c.id).limit(limit).with_for_update())
    return list(found.scalars())


def still_open(connection: sa.Connection, run_ids: Sequence[str]) -> list[str]:
    """Which of these runs are not over."""
    found = connection.execute(sa.select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.status.in_(OPEN)))
    return list(found.scalars())


def cancel_requests(connection: sa.Connection, run_ids: Sequence[str]) -> list[str]:
    """Which of these running runs have been asked to stop."""
    asked = runs.c.cancel_requested_at.is_not(None)
    found = connection.execute(sa.select(runs.c.id).where(runs.c.id.in_(run_ids), asked, runs.c.status == "running"))
    return list(found.scalars())
