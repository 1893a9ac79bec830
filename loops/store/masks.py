"""Windows of masks, as SQL over a connection inside the caller's transaction.

Nobody waits for another transaction here: it lasts as long as a whole batch, and two batches that wait for each other
would never end. Who cannot have a row now is told so, and comes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from loops.errors import RowHeld
from loops.store.mask_tables import masks
from loops.store.once import insert_once

_LOCK_NOT_AVAILABLE = "55P03"
# How long to wait for whoever is inserting the same row; a lock that is there can be seen without waiting.
_PATIENCE = sa.text("SET LOCAL lock_timeout = '20ms'")
_AS_BEFORE = sa.text("SET LOCAL lock_timeout TO DEFAULT")


@dataclass(frozen=True, slots=True)
class MaskRow:
    """A window: when it started, when it ends, and how many matches it has counted."""

    started_at: datetime
    ends_at: datetime
    count: int


_COLUMNS = [masks.c[name] for name in MaskRow.__dataclass_fields__]


def lock(connection: sa.Connection, workflow_id: str, digest: str) -> MaskRow | None:
    """The window of a hash, ours until the transaction ends; None where there is none. Raises RowHeld."""
    query = sa.select(*_COLUMNS).where(*_here(workflow_id, digest)).with_for_update(nowait=True)
    with _never_waiting():
        row = connection.execute(query).first()
    return None if row is None else MaskRow(*row)


def begin(connection: sa.Connection, workflow_id: str, digest: str, row: MaskRow, now: datetime) -> bool:
    """Store a hash's first window; False when somebody else has. Raises RowHeld while somebody else is about to."""
    values = {
        "workflow_id": workflow_id,
        "digest": digest,
        "started_at": row.started_at,
        "ends_at": row.ends_at,
        "count": row.count,
        "updated_at": now,
    }
    if connection.dialect.name != "postgresql":
        return connection.execute(insert_once(connection, masks), values).rowcount > 0
    with _never_waiting():
        connection.execute(_PATIENCE)
        made = connection.execute(insert_once(connection, masks), values).rowcount > 0
        connection.execute(_AS_BEFORE)
    return made


def save(connection: sa.Connection, workflow_id: str, digest: str, row: MaskRow, now: datetime) -> None:
    """Store a window that is locked as it stands now."""
    connection.execute(
        masks.update()
        .where(*_here(workflow_id, digest))
        .values(started_at=row.started_at, ends_at=row.ends_at, count=row.count, updated_at=now)
    )


def _here(workflow_id: str, digest: str) -> "tuple[sa.ColumnElement[bool], ...]":
    return masks.c.workflow_id == workflow_id, masks.c.digest == digest


@contextmanager
def _never_waiting() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise RowHeld("another process is counting the same mask", hint="it is tried again at once") from error
