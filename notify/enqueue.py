"""Into the outbox: a message is stored in its sender's own transaction, and only then sent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from loops.connections.named import choices, unfit
from loops.errors import Conflict, NotFound
from loops.ports import Clock
from loops.storable import storable
from loops.store import connections
from loops.store import outbox as store
from loops.store.outbox import NewMessage, OutboxRow
from notify.message import CONNECTION_KIND, Message, PageTarget, Target, Unconnected
from notify.outbox import Standing, as_columns, asked_again, pending, shown, unsent

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
        """Store it as part of the caller's transaction: to be sent, or shown where its target has no connection; shown
        or refused where nothing can leave over it (`unconnected`)."""
        now = self._clock.now()
        target = message.target
        standing = pending(now)
        if unconnected is not None:
            standing = unsent(None, unconnected)
        elif target.connection_id is None:
            kind = _KIND_NAMES[target.kind]
            standing = shown(None, f"there is no {kind} connection: it stands here alone" if kind else "")
        new = NewMessage(
            project_id=project_id,
            key=message.key,
            kind=target.kind,
            connection_id=None if unconnected is not None else target.connection_id,
            message=_storable(self.masked(message)),
            standing=as_columns(standing),
            run_id=run_id,
            step_id=step_id,
        )
        stored = store.insert(connection, new, now)
        if stored is not None:
            return Stored(stored, standing.status, new=True)
        known = store.by_key(connection, project_id, message.key)
        return Stored(known.id, known.status, new=False)

    def masked(self, message: Message) -> Message:
        """The message as people may read it: secrets are blotted out."""
        return message.masked(self._mask)

    def send_again(self, connection: sa.Connection, project_id: str, message_id: str, over: int | None = None) -> None:
        """A person asks for a message that was refused, is uncertain or only shown; over another connection where
        `over` names it, or where its own is none and the project has one alone of the kind. Raises NotFound, or
        Conflict, which then says which connections would do.
        """
        row = store.held(connection, message_id)
        if row.project_id != project_id:
            raise NotFound(f"there is no message {message_id!r}")
        if not row.message:
            raise Conflict("the text of the message is no longer kept: retention removed it", hint="run the loop again")
        now = self._clock.now()
        standing = asked_again(standing_of(row), now)
        message = Message.from_json(row.message)
        chosen = _way(connection, project_id, message.target, over)
        if chosen.connection_id != message.target.connection_id:
            # Parts of it that are elsewhere are none of what goes this way.
            standing = replace(standing, parts=0, refs=(), missed=())
        way = {"connection_id": chosen.connection_id, "message": replace(message, target=chosen).as_json()}
        store.change(connection, row, {**as_columns(standing), **way}, now)


def _way(connection: sa.Connection, project_id: str, target: Target, over: int | None) -> Target:
    """The target with the connection that it is to leave over. Raises Conflict."""
    if isinstance(target, PageTarget):
        raise Conflict("the message is for this page: there is nowhere to send it")
    kind = CONNECTION_KIND[target.kind]
    found = unfit(connection, project_id, kind, target.connection_id if over is None else over)
    if found is None:
        return target if over is None else replace(target, connection_id=over)
    there = connections.listed(connection, project_id, kind)
    if over is None and len(there) == 1:
        return replace(target, connection_id=there[0].id)
    mend = f"send it again with the id of one. {choices(kind, there)}" if there else found.mend
    raise Conflict(f"the message cannot be sent: {found.reason}", hint=mend)


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
