"""The outbox, as SQL over a connection inside the caller's transaction."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound
from loops.runs.state import OVER
from loops.store.ids import new_id
from loops.store.once import insert_once
from loops.store.tables import outbox, runs


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored: `message` is its JSON, `standing` the columns of where it stands."""

    project_id: str
    key: str
    kind: str
    connection_id: int | None
    message: Mapping[str, Any]
    standing: Mapping[str, object]
    run_id: str | None = None
    step_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A stored message, and where it stands. `message` is empty once retention has removed it."""

    id: str
    project_id: str
    key: str
    run_id: str | None
    step_id: str | None
    kind: str
    connection_id: int | None
    message: Mapping[str, Any]
    status: str
    version: int
    attempts: int
    parts: int
    refs: list[str]
    missed: list[str]
    code: str
    reason: str
    mend: str
    began_at: datetime | None
    due_at: datetime | None
    created_at: datetime
    updated_at: datetime


_ROW = [outbox.c[name] for name in OutboxRow.__dataclass_fields__]


def insert(connection: sa.Connection, new: NewMessage, now: datetime) -> str | None:
    """Store a message; its id, or None when the project has one with this key."""
    row = {
        "id": new_id(),
        "project_id": new.project_id,
        "key": new.key,
        "run_id": new.run_id,
        "step_id": new.step_id,
        "kind": new.kind,
        "connection_id": new.connection_id,
        "message": dict(new.message),
        "version": 0,
        "created_at": now,
        "updated_at": now,
        **new.standing,
    }
    fresh = connection.execute(insert_once(connection, outbox), row).rowcount > 0
    return str(row["id"]) if fresh else None


def by_key(connection: sa.Connection, project_id: str, key: str) -> OutboxRow:
    """The message with this key. Raises NotFound."""
    here = (outbox.c.project_id == project_id, outbox.c.key == key)
    row = connection.execute(sa.select(*_ROW).where(*here)).first()
    if row is None:
        raise NotFound(f"there is no message with the key {key!r} in project {project_id!r}")
    return OutboxRow(*row)


def unsent(connection: sa.Connection, project_id: str, keys: Collection[str]) -> list[str]:
    """The messages with these keys that are still to be sent."""
    wanted = (outbox.c.project_id == project_id, outbox.c.key.in_(keys), outbox.c.status.in_(("pending", "retry")))
    return list(connection.execute(sa.select(outbox.c.id).where(*wanted)).scalars())


def get(connection: sa.Connection, message_id: str) -> OutboxRow:
    """The message with this id, in whatever project. Raises NotFound."""
    row = connection.execute(sa.select(*_ROW).where(outbox.c.id == message_id)).first()
    if row is None:
        raise NotFound(f"there is no message {message_id!r}")
    return OutboxRow(*row)


def held_if_free(connection: sa.Connection, message_id: str) -> OutboxRow | None:
    """The message with this id, held until the transaction ends; None when somebody else holds it. Raises NotFound."""
    query = sa.select(*_ROW).where(outbox.c.id == message_id).with_for_update(skip_locked=True)
    row = connection.execute(query).first()
    if row is not None:
        return OutboxRow(*row)
    get(connection, message_id)
    return None


def held(connection: sa.Connection, message_id: str) -> OutboxRow:
    """The message with this id, held until the transaction ends. Raises NotFound."""
    row = connection.execute(sa.select(*_ROW).where(outbox.c.id == message_id).with_for_update()).first()
    if row is None:
        raise NotFound(f"there is no message {message_id!r}")
    return OutboxRow(*row)


def any_due(connection: sa.Connection, now: datetime) -> bool:
    """Whether some message has to be looked at."""
    return connection.execute(sa.select(outbox.c.id).where(outbox.c.due_at <= now).limit(1)).first() is not None


def due(connection: sa.Connection, now: datetime, limit: int, *, without: Collection[int] = ()) -> list[OutboxRow]:
    """Messages that have to be looked at, the oldest first, none over the connections in `without`; held, and passed
    over where another process holds them."""
    query = sa.select(*_ROW).where(outbox.c.due_at <= now)
    if without:
        query = query.where(sa.or_(outbox.c.connection_id.is_(None), outbox.c.connection_id.not_in(without)))
    query = query.order_by(outbox.c.id).limit(limit).with_for_update(skip_locked=True)
    return [OutboxRow(*row) for row in connection.execute(query)]


def due_of_cancelled(connection: sa.Connection, now: datetime, limit: int) -> list[OutboxRow]:
    """Messages that are to be sent now for runs whose cancellation was asked for and is not done yet, the oldest first,
    over whatever connection; held with their runs, and passed over where another process holds either."""
    query = (
        sa.select(*_ROW)
        .join(runs, runs.c.id == outbox.c.run_id)
        .where(outbox.c.due_at <= now, outbox.c.status.in_(("pending", "retry")))
        .where(runs.c.cancel_requested_at.is_not(None), runs.c.status.not_in(OVER))
        .order_by(outbox.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return [OutboxRow(*row) for row in connection.execute(query)]


def change(connection: sa.Connection, row: OutboxRow, standing: Mapping[str, object], now: datetime) -> bool:
    """Move a message on from where `row` saw it; False, and nothing is stored, when it has moved meanwhile."""
    changed = connection.execute(
        outbox.update()
        .where(outbox.c.id == row.id, outbox.c.version == row.version)
        .values(**standing, version=row.version + 1, updated_at=now)
    )
    return changed.rowcount > 0


def begun(connection: sa.Connection) -> list[OutboxRow]:
    """Messages that somebody is sending, or was when it died; held."""
    query = sa.select(*_ROW).where(outbox.c.status == "sending", outbox.c.due_at.is_not(None))
    return [OutboxRow(*row) for row in connection.execute(query.order_by(outbox.c.id).with_for_update())]


def listed(
    connection: sa.Connection,
    project_id: str,
    *,
    run_id: str | None = None,
    status: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[OutboxRow]:
    """Messages of a project, the newest first: those with an id below `before`."""
    query = sa.select(*_ROW).where(outbox.c.project_id == project_id)
    for column, value in ((outbox.c.run_id, run_id), (outbox.c.status, status)):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(outbox.c.id < before)
    return [OutboxRow(*row) for row in connection.execute(query.order_by(outbox.c.id.desc()).limit(limit))]
