"""/notifications: the messages that loops send, where each stands, and sending one again."""

from collections.abc import Mapping
from typing import Any, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.definition.inputs.base import connection_number
from loops.errors import NotFound, RequestError
from loops.event import JsonValue
from loops.store import outbox as store
from loops.store.outbox import OutboxRow
from notify.enqueue import Outbox
from notify.message import Message
from notify.outbox import Status
from server.api.call import Call, answer, listed

STATUSES: tuple[str, ...] = get_args(Status)


async def listing(call: Call) -> web.Response:
    """Messages, the newest first, without what they say; of one run or status."""
    given = call.query("run", "status", page=True)
    page = call.page(given, 1)
    status = call.choice(given, "status", STATUSES)

    def look(connection: sa.Connection) -> list[OutboxRow]:
        return store.listed(
            connection,
            call.project,
            run_id=given.get("run"),
            status=status,
            before=None if page.after is None else page.after[0],
            limit=page.limit + 1,
        )

    return listed(await call.services.reader.read(look), page.limit, lambda row: (row.id,), notification_item)


async def read(call: Call) -> web.Response:
    """One message with what it says; `message` is null once retention has removed it."""
    row = await _row(call)
    return answer({**notification_item(row), "message": dict(row.message) or None})


async def resend(call: Call) -> web.Response:
    """Send it again, if it is refused, uncertain or shown (else 409). One that is uncertain may arrive twice.
    `connection` is the id of the connection that it leaves over from now on; without it that is its own, or where that
    is none the project's one of the kind (409 names them where there are several)."""
    message_id = call.piece("id")
    over = _over(await call.document("connection"))
    outbox = Outbox(call.services.clock)
    await call.services.writer.run(lambda connection: outbox.send_again(connection, call.project, message_id, over))
    return answer(notification_item(await _row(call)))


def _over(body: Mapping[str, JsonValue]) -> int | None:
    given = body.get("connection")
    number = connection_number(given)
    if given is not None and number is None:
        raise RequestError("connection is not the id of one", hint='as 7 or "7"', path="connection")
    return number


async def _row(call: Call) -> OutboxRow:
    message_id = call.piece("id")
    row = await call.services.reader.read(lambda connection: store.get(connection, message_id))
    if row.project_id != call.project:
        raise NotFound(f"there is no message {message_id!r}")
    return row


def notification_item(row: OutboxRow) -> dict[str, Any]:
    """A message without what it says. `to` is where it goes, in words; `due_at` when it is looked at again."""
    return {
        "id": row.id,
        "kind": row.kind,
        "to": Message.from_json(row.message).target.addressee if row.message else None,
        "connection": None if row.connection_id is None else str(row.connection_id),
        "run": row.run_id,
        "step": row.step_id,
        "status": row.status,
        "code": row.code,
        "reason": row.reason,
        "mend": row.mend,
        "attempts": row.attempts,
        "parts": row.parts,
        "refs": row.refs,
        "missed": row.missed,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "due_at": None if row.due_at is None else row.due_at.isoformat(),
    }
