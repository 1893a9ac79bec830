"""Into the outbox: a message is stored in its sender's own transaction, and only then sent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict, NotFound
from loops.ports import Clock
from loops.runs.trace import storable
from loops.store import outbox as store
from loops.store.outbox import NewMessage, OutboxRow
from notify.message import Message, Unconnected
from notify.outbox import Standing, as_columns, asked_again, pending, shown

_KIND_NAMES = {"slack": "Slack", "email": "mail server", "page": ""}


@dataclass(frozen=True, slots=True)
class Stored:
    """A message in the outbox; `new` unless its key was there before."""

    id: str
    status: str
    new: bool


class Outbox:
    """Takes messages. `mask` blots out secrets in all that people will read."""

    def __init__(self, clock: Clock, *, mask: Callable[[str], str] = lambda text: text) -> None:
        self._clock = clock
        self._mask = mask

    def put(
        self,
        connection: sa.Connection,
        message: Message,
        *,
        project_id: str,
        run_id: str | None = None,
        step_id: str | None = None,
        unconnected: Unconnected | None = None,
    ) -> Stored:
        """Store it as part of the caller's transaction: to be sent, or shown where its target has no connection, or one
        over which nothing can leave (`unconnected`)."""
        now = self._clock.now()
        target = message.target
        standing = pending(now)
        if unconnected is not None:
            standing = shown(None, unconnected.reason, unconnected.mend)
        elif target.connection_id is None:
            kind = _KIND_NAMES[target.kind]
            standing = shown(None, f"there is no {kind} connection: it stands here alone" if kind else "")
        new = NewMessage(
            project_id=project_id,
            key=message.key,
            kind=target.kind,
            connection_id=None if unconnected is not None else target.connection_id,
            message=_storable(message.masked(self._mask)),
            standing=as_columns(standing),
            run_id=run_id,
            step_id=step_id,
        )
        stored = store.insert(connection, new, now)
        if stored is not None:
            return Stored(stored, standing.status, new=True)
        known = store.by_key(connection, project_id, message.key)
        return Stored(known.id, known.status, new=False)

    def send_again(self, connection: sa.Connection, project_id: str, message_id: str) -> None:
        """A person asks for a message that was refused, is uncertain or only shown. Raises NotFound or Conflict."""
        row = store.held(connection, message_id)
        if row.project_id != project_id:
            raise NotFound(f"there is no message {message_id!r}")
        if not row.message:
            raise Conflict("the text of the message is no longer kept: retention removed it", hint="run the loop again")
        now = self._clock.now()
        store.change(connection, row, as_columns(asked_again(standing_of(row), now)), now)


def _storable(message: Message) -> Mapping[str, Any]:
    stored = storable(message.as_json())
    return stored if isinstance(stored, dict) else {}


def standing_of(row: OutboxRow) -> Standing:
    """Where a stored message stands."""
    return Standing(
        status=row.status,  # type: ignore[arg-type]  # only as_columns writes it
        due_at=row.due_at,
        attempts=row.attempts,
        parts=row.parts,
        refs=tuple(row.refs),
        missed=tuple(row.missed),
        code=row.code,
        reason=row.reason,
        mend=row.mend,
        began_at=row.began_at,
    )
