"""Windows of masks, as SQL over a connection inside the caller's transaction. Nobody waits for another one here: see
held_rows.py."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from loops.store.held_rows import inserted, never_waiting
from loops.store.mask_tables import masks
from loops.store.once import insert_once


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
    with never_waiting():
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
    return inserted(connection, insert_once(connection, masks), values)


def save(connection: sa.Connection, workflow_id: str, digest: str, row: MaskRow, now: datetime) -> None:
    """Store a window that is locked as it stands now."""
    connection.execute(
        masks.update()
        .where(*_here(workflow_id, digest))
        .values(started_at=row.started_at, ends_at=row.ends_at, count=row.count, updated_at=now)
    )


def remove(connection: sa.Connection, workflow_id: str, digest: str) -> None:
    """Remove a window that is locked."""
    connection.execute(masks.delete().where(*_here(workflow_id, digest)))


def _here(workflow_id: str, digest: str) -> "tuple[sa.ColumnElement[bool], ...]":
    return masks.c.workflow_id == workflow_id, masks.c.digest == digest
