"""/outbox: what loops sent, or could not send; and sending one message again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import sqlalchemy as sa
from aiohttp import web
from markupsafe import Markup

from loops.brief import one_line
from loops.definition.inputs.base import connection_number
from loops.errors import Conflict, NotFound
from loops.store import connections as connections_store
from loops.store import outbox as store
from loops.store import run_queries
from loops.store.connections import ConnectionRow
from loops.store.outbox import OutboxRow
from notify.compose import LARGEST
from notify.enqueue import Outbox
from notify.message import CONNECTION_KIND, EmailTarget, Message, SlackTarget
from notify.outbox import ASKED_AGAIN, Status, rests
from server.pages.addresses import one_of, outbox_cursor, path_of, wanted_id
from server.pages.drawn import drawn
from server.pages.inert import Shown, shown_value
from server.pages.rendering import see_other
from server.pages.visit import Visit

PAGE = 50
_LONGEST_LINE = 100
STATUSES: tuple[str, ...] = get_args(Status)
KINDS: Mapping[str, str] = {"slack": "Slack", "email": "Email", "page": "This page"}


@dataclass(frozen=True, slots=True)
class PartShown:
    """A part of what a message says: as it is written and, of Markdown for Slack, as a reader there sees it."""

    name: str
    written: Shown
    drawn: Markup | None = None


@dataclass(frozen=True, slots=True)
class MessageShown:
    """A message on its page; `connection` and `loop` are names, the latter None where its run is no longer kept.
    `ways` are the connections of the project that it could leave over."""

    row: OutboxRow
    message: Message | None
    connection: str | None
    loop: str | None
    ways: Sequence[ConnectionRow] = ()

    @property
    def to(self) -> str | None:
        """Where it goes, None once retention has removed that."""
        return None if self.message is None else self.message.target.addressee

    @property
    def headline(self) -> str:
        """What a list calls it: where it goes; for this page the loop, and how it begins."""
        if self.to or self.message is None:
            return self.to or self.loop or "a message"
        lines = (line for line in (self.message.subject, *self.message.text.splitlines()) if line.strip())
        begins = one_line(next(lines, ""), _LONGEST_LINE)
        return ": ".join(filter(None, (self.loop, begins))) or "a message"

    @property
    def why(self) -> str:
        """The reason, unless that is the kind of the message itself, which is told beside it."""
        return "" if self.row.kind == "page" and self.row.status == "shown" else self.row.reason

    @property
    def way(self) -> int | None:
        """The connection that it leaves over unless somebody chooses another; None where nobody can tell."""
        ids = [one.id for one in self.ways]
        return self.named if self.named in ids else ids[0] if len(ids) == 1 else None

    @property
    def named(self) -> int | None:
        """The connection that it names, whether or not there is one."""
        return None if self.message is None else self.message.target.connection_id

    @property
    def sender(self) -> str | None:
        """The address and name that an email shows instead of its connection's."""
        target = None if self.message is None else self.message.target
        if not isinstance(target, EmailTarget) or target.sender is None:
            return None
        return f"{target.sender.name} {target.sender.email}".strip()


async def list_messages(visit: Visit) -> web.Response:
    """GET /outbox"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = outbox_cursor(query.get("before"))
    run_id = wanted_id(query["run"], "run") if query.get("run") else None

    def read(connection: sa.Connection) -> tuple[list[OutboxRow], Mapping[str, str]]:
        found = store.listed(connection, project, run_id=run_id, status=status, before=before, limit=PAGE + 1)
        return found, run_queries.loop_names(connection, [row.run_id for row in found if row.run_id])

    rows, loops = await visit.services.reader.read(read)
    narrowed = {} if run_id is None else {"run": run_id}
    older = path_of("outbox", **narrowed, status=status, before=rows[PAGE - 1].id) if len(rows) > PAGE else None
    return visit.show(
        "outbox.html",
        messages=[MessageShown(row, _message(row), None, loops.get(row.run_id or "")) for row in rows[:PAGE]],
        kinds=KINDS,
        statuses=STATUSES,
        chosen=status,
        narrowed=narrowed,
        is_first=before is None,
        older=older,
    )


async def show_message(visit: Visit) -> web.Response:
    """GET /outbox/{id}"""
    return await _page(visit)


async def send_again(visit: Visit) -> web.Response:
    """POST /outbox/{id}/resend"""
    message_id = wanted_id(visit.request.match_info["id"], "message")
    outbox, project = Outbox(visit.services.clock), visit.who.project_id
    over = connection_number((await visit.request.post()).get("connection"))
    try:
        await visit.services.writer.run(lambda connection: outbox.send_again(connection, project, message_id, over))
    except Conflict as error:
        return await _page(visit, status=409, alert=f"{error.message}. {error.hint}" if error.hint else error.message)
    return see_other(path_of("outbox", message_id))


async def _page(visit: Visit, status: int = 200, alert: str = "") -> web.Response:
    message_id, project = wanted_id(visit.request.match_info["id"], "message"), visit.who.project_id
    shown = await visit.services.reader.read(lambda connection: _read(connection, project, message_id))
    row, message = shown.row, shown.message
    is_open = not rests(row.status, row.due_at)
    return visit.show(
        "message.html",
        status,
        shown=shown,
        row=row,
        subject="" if message is None else message.subject,
        parts=[] if message is None else _parts(message),
        is_open=is_open,
        can_send=row.status in ASKED_AGAIN and bool(shown.ways) and message is not None and visit.may("editor"),
        kinds=KINDS,
        alert=alert,
    )


def _read(connection: sa.Connection, project: str, message_id: str) -> MessageShown:
    row = store.get(connection, message_id)
    if row.project_id != project:
        raise NotFound(f"there is no message {message_id!r}")
    used = None if row.connection_id is None else connections_store.get(connection, row.connection_id)
    loop = None
    if row.run_id is not None:
        try:
            run = run_queries.get(connection, project, row.run_id)
            loop = str(run["workflow_name"] or run["workflow_id"])
        except NotFound:
            loop = None
    name = used.name if used is not None and used.project_id == project else None
    kind = CONNECTION_KIND.get(row.kind)
    ways = connections_store.listed(connection, project, kind) if kind else ()
    return MessageShown(row, _message(row), name, loop, ways)


def _message(row: OutboxRow) -> Message | None:
    return Message.from_json(row.message) if row.message else None


def _parts(message: Message) -> list[PartShown]:
    """What it says. HTML is shown as it is written, never rendered."""
    is_drawn = isinstance(message.target, SlackTarget) and message.format == "markdown"
    parts: list[PartShown] = []
    for name, text in (("Text", message.text), ("HTML, as it is written", message.html)):
        if text:
            draws = is_drawn and text is message.text
            parts.append(PartShown(name, shown_value(text, LARGEST), drawn(text, message.mentions) if draws else None))
    if message.blocks:
        parts.append(PartShown("Blocks", shown_value(list(message.blocks), LARGEST)))
    return parts
