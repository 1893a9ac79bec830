"""What debounce holds, as SQL over a connection inside the caller's transaction; see held_rows.py."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.store.brake_tables import holds
from loops.store.held_rows import inserted, never_waiting
from loops.store.once import insert_once
from loops.store.tables import deliveries, events


@dataclass(frozen=True, slots=True)
class HoldRow:
    """See the table."""

    id: str
    project_id: str
    workflow_id: str
    digest: str
    shown: str
    first_at: datetime
    last_at: datetime
    due_at: datetime
    count: int
    source: str
    event_uuid: str
    delivery_id: str
    version: int
    epoch: int
    notes: str
    attempts: int = 0
    run_id: str | None = None
    released_at: datetime | None = None
    counted: Sequence[Mapping[str, Any]] | None = None
    claim: str | None = None


_COLUMNS = [holds.c[name] for name in HoldRow.__dataclass_fields__]
_COUNTED = re.compile(r"(\d+) debounced")
_IS_OPEN = holds.c.released_at.is_(None)
_NOW = sa.bindparam("now", type_=holds.c.due_at.type)
# Built once: they run with every batch, also of nothing.
_DUE = (
    sa.select(*_COLUMNS)
    .where(_IS_OPEN, holds.c.due_at <= _NOW)
    .order_by(holds.c.due_at, holds.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_NEXT = sa.select(sa.func.min(holds.c.due_at)).where(_IS_OPEN)


def lock(connection: sa.Connection, workflow_id: str, digest: str) -> HoldRow | None:
    """The open one of a key, ours until the transaction ends; None where there is none. Raises RowHeld."""
    here = (holds.c.workflow_id == workflow_id, holds.c.digest == digest, _IS_OPEN)
    with never_waiting():
        row = connection.execute(sa.select(*_COLUMNS).where(*here).with_for_update(nowait=True)).first()
    return None if row is None else HoldRow(*row)


def begin(connection: sa.Connection, row: HoldRow) -> bool:
    """Store an open one; False where its key has one. Raises RowHeld while somebody else is about to."""
    return inserted(connection, insert_once(connection, holds), asdict(row))


def save(connection: sa.Connection, row: HoldRow) -> None:
    """Store an open one that is locked as it stands now."""
    values = {name: value for name, value in asdict(row).items() if name != "id"}
    connection.execute(holds.update().where(holds.c.id == row.id, _IS_OPEN).values(values))


def due(connection: sa.Connection, now: datetime, limit: int) -> list[HoldRow]:
    """Those to release now, the longest due first; on Postgres nobody else gets them meanwhile."""
    return [HoldRow(*row) for row in connection.execute(_DUE, {"now": now, "most": limit})]


def next_due(connection: sa.Connection) -> datetime | None:
    """When the next is due, None where none is open."""
    found: datetime | None = connection.execute(_NEXT).scalar()
    return found


def release(connection: sa.Connection, hold_id: str, now: datetime, run_id: str | None) -> bool:
    """Close an open one, once; whether it was this call that did."""
    closed = holds.update().where(holds.c.id == hold_id, _IS_OPEN).values(released_at=now, run_id=run_id)
    return connection.execute(closed).rowcount > 0


def put_off(connection: sa.Connection, hold_id: str, attempts: int, due_at: datetime) -> None:
    """Try to release an open one again later."""
    connection.execute(holds.update().where(holds.c.id == hold_id, _IS_OPEN).values(attempts=attempts, due_at=due_at))


def found(connection: sa.Connection, ids: Sequence[str]) -> dict[str, HoldRow]:
    """These, open or closed, by id."""
    if not ids:
        return {}
    return {row.id: HoldRow(*row) for row in connection.execute(sa.select(*_COLUMNS).where(holds.c.id.in_(ids)))}


def of_workflow(connection: sa.Connection, workflow_id: str, limit: int) -> list[HoldRow]:
    """The open ones of a workflow, the next due first."""
    query = sa.select(*_COLUMNS).where(holds.c.workflow_id == workflow_id, _IS_OPEN).order_by(holds.c.due_at)
    return [HoldRow(*row) for row in connection.execute(query.limit(limit))]


def held_event(connection: sa.Connection, row: HoldRow) -> tuple[bytes | None, str]:
    """The packed event that goes on, None where it is gone, and the delivery that brought it last."""
    found = connection.execute(sa.select(events.c.body, events.c.delivery_id).where(*_event(row))).first()
    return (None, row.delivery_id) if found is None else (found[0], found[1])


def decide(connection: sa.Connection, row: HoldRow, verdict: Mapping[str, Any]) -> None:
    """Put a verdict in the place of the one by which the event was held."""
    query = sa.select(events.c.verdicts).where(*_event(row)).with_for_update()
    before = connection.execute(query).scalar() or []
    kept = [verdict if _is_held_by(one, row) else one for one in before]
    connection.execute(events.update().where(*_event(row)).values(verdicts=kept))


def tell_delivery(connection: sa.Connection, row: HoldRow, came: str) -> None:
    """Say in the delivery of the event that went on what came of it, in the place of one that was debounced."""
    here = deliveries.c.id == row.delivery_id
    query = sa.select(deliveries.c.reason).where(here).with_for_update()
    told = [_COUNTED.fullmatch(one) or one for one in (connection.execute(query).scalar() or "").split(", ")]
    if all(isinstance(one, str) for one in told):
        return  # nothing of it is debounced any more, or it started something else, which is all that is said
    pieces: list[str] = []
    for one in told:
        if isinstance(one, str):
            pieces.append(one)
        elif int(one[1]) > 1:
            pieces.append(f"{int(one[1]) - 1} debounced")
    connection.execute(deliveries.update().where(here).values(reason=", ".join((*pieces, came))))


def held_verdict(connection: sa.Connection, row: HoldRow) -> Mapping[str, Any] | None:
    """The verdict by which the event was held."""
    before = connection.execute(sa.select(events.c.verdicts).where(*_event(row))).scalar() or []
    return next((one for one in before if _is_held_by(one, row)), None)


def _is_held_by(verdict: Mapping[str, Any], row: HoldRow) -> bool:
    return verdict.get("hold") == row.id and verdict.get("workflow") == row.workflow_id


def _event(row: HoldRow) -> "tuple[sa.ColumnElement[bool], ...]":
    return events.c.project_id == row.project_id, events.c.source == row.source, events.c.uuid == row.event_uuid
