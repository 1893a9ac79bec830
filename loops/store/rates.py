"""What got past rate limits, as SQL over a connection inside the caller's transaction; see held_rows.py."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from loops.store.brake_tables import rates
from loops.store.columns import from_micros, to_micros
from loops.store.held_rows import inserted, never_waiting
from loops.store.once import insert_once


def lock(connection: sa.Connection, workflow_id: str, digest: str) -> tuple[datetime, ...] | None:
    """When events of a key passed, ours until the transaction ends; None where none did. Raises RowHeld."""
    query = sa.select(rates.c.passed).where(*_here(workflow_id, digest)).with_for_update(nowait=True)
    with never_waiting():
        row = connection.execute(query).first()
    return None if row is None else tuple(from_micros(at) for at in row[0])


def begin(
    connection: sa.Connection,
    workflow_id: str,
    digest: str,
    passed: Sequence[datetime],
    ends_at: datetime,
    now: datetime,
) -> bool:
    """Store the first that passed of a key; False when somebody else has. Raises RowHeld."""
    values = {"workflow_id": workflow_id, "digest": digest, **_values(passed, ends_at, now)}
    return inserted(connection, insert_once(connection, rates), values)


def save(
    connection: sa.Connection,
    workflow_id: str,
    digest: str,
    passed: Sequence[datetime],
    ends_at: datetime,
    now: datetime,
) -> None:
    """Store those that passed of a key that is locked."""
    connection.execute(rates.update().where(*_here(workflow_id, digest)).values(_values(passed, ends_at, now)))


def trim(connection: sa.Connection, workflow_id: str, digest: str, passed: Sequence[datetime], now: datetime) -> None:
    """Store fewer of those that passed of a key that is locked; when none counts any more stays as it is."""
    values = {"passed": [to_micros(at) for at in passed], "updated_at": now}
    connection.execute(rates.update().where(*_here(workflow_id, digest)).values(values))


def remove(connection: sa.Connection, workflow_id: str, digest: str) -> None:
    """Remove what passed of a key that is locked."""
    connection.execute(rates.delete().where(*_here(workflow_id, digest)))


def _values(passed: Sequence[datetime], ends_at: datetime, now: datetime) -> dict[str, object]:
    return {"passed": [to_micros(at) for at in passed], "ends_at": ends_at, "updated_at": now}


def _here(workflow_id: str, digest: str) -> "tuple[sa.ColumnElement[bool], ...]":
    return rates.c.workflow_id == workflow_id, rates.c.digest == digest
