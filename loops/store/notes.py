"""Notes that agents leave, as SQL over a connection inside the caller's transaction."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from loops.errors import NotFound
from loops.store.once import insert_once
from loops.store.task_tables import notes


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A note. `closed_at` is None as long as it is open."""

    id: str
    project_id: str
    workflow_id: str
    subject: str
    task_id: str
    text: str
    reason: str
    created_at: datetime
    closed_at: datetime | None


_ROW = [notes.c[name] for name in NoteRow.__dataclass_fields__]


MOST_OPEN = 50
"""Notes that may be open on one subject of a workflow."""


def is_full(connection: sa.Connection, workflow_id: str, subject: str, key: str) -> bool:
    """Whether another note may not be opened on the subject; the one with this key is there already."""
    here = (notes.c.workflow_id == workflow_id, notes.c.subject == subject, notes.c.closed_at.is_(None))
    count = connection.execute(sa.select(sa.func.count()).select_from(notes).where(*here)).scalar_one()
    known = sa.select(notes.c.id).where(notes.c.open_key == key)
    return count >= MOST_OPEN and connection.execute(known).first() is None


def open_note(
    connection: sa.Connection,
    *,
    project_id: str,
    workflow_id: str,
    subject: str,
    task_id: str,
    text: str,
    key: str,
    now: datetime,
) -> str:
    """Keep a note; its id. The same key is the same note."""
    row = {
        "id": f"o_{secrets.token_hex(4)}",
        "project_id": project_id,
        "workflow_id": workflow_id,
        "subject": subject,
        "task_id": task_id,
        "text": text,
        "reason": "",
        "open_key": key,
        "created_at": now,
    }
    connection.execute(insert_once(connection, notes), row)
    return str(connection.execute(sa.select(notes.c.id).where(notes.c.open_key == key)).scalar_one())


def close_note(
    connection: sa.Connection, workflow_id: str, subject: str, note_id: str, reason: str, key: str, now: datetime
) -> Literal["closed", "not_found", "already_closed"]:
    """Archive a note. The same key closes it once and says so each time."""
    here = (notes.c.id == note_id, notes.c.workflow_id == workflow_id, notes.c.subject == subject)
    row = connection.execute(sa.select(notes.c.close_key, notes.c.closed_at).where(*here).with_for_update()).first()
    if row is None:
        return "not_found"
    if row[1] is not None:
        return "closed" if row[0] == key else "already_closed"
    connection.execute(notes.update().where(*here).values(closed_at=now, close_key=key, reason=reason))
    return "closed"


def opened(connection: sa.Connection, workflow_id: str, subject: str) -> Sequence[NoteRow]:
    """The open notes of a workflow on a subject, the oldest first."""
    here = (notes.c.workflow_id == workflow_id, notes.c.subject == subject, notes.c.closed_at.is_(None))
    return [NoteRow(*row) for row in connection.execute(sa.select(*_ROW).where(*here).order_by(notes.c.created_at))]


def get(connection: sa.Connection, project_id: str, note_id: str) -> NoteRow:
    """One note of a project. Raises NotFound."""
    here = (notes.c.id == note_id, notes.c.project_id == project_id)
    row = connection.execute(sa.select(*_ROW).where(*here)).first()
    if row is None:
        raise NotFound(f"there is no note {note_id!r} in project {project_id!r}")
    return NoteRow(*row)


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: tuple[datetime, str] | None = None,
    closed: bool | None = None,
    workflow_id: str | None = None,
    subject: str | None = None,
) -> Sequence[NoteRow]:
    """Notes of a project, the newest first, below a (created_at, id); open and closed ones unless `closed` says."""
    query = sa.select(*_ROW).where(notes.c.project_id == project_id)
    for column, wanted in ((notes.c.workflow_id, workflow_id), (notes.c.subject, subject)):
        if wanted is not None:
            query = query.where(column == wanted)
    if closed is not None:
        query = query.where(notes.c.closed_at.is_not(None) if closed else notes.c.closed_at.is_(None))
    if before is not None:
        at = sa.literal(before[0], notes.c.created_at.type)
        query = query.where(sa.tuple_(notes.c.created_at, notes.c.id) < sa.tuple_(at, sa.literal(before[1])))
    query = query.order_by(notes.c.created_at.desc(), notes.c.id.desc()).limit(limit)
    return [NoteRow(*row) for row in connection.execute(query)]
