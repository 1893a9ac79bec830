"""/notes: what agents leave for the next run of their loop on the same subject."""

import sqlalchemy as sa
from aiohttp import web

from loops.errors import Conflict, RequestError
from loops.storable import storable_text
from loops.store import notes as store
from loops.store.ids import new_id
from loops.store.notes import NoteRow
from server.api.call import Call, answer, instant_after, instant_key, listed
from server.api.items import note_item

_STATUSES = ("open", "closed")
_LONGEST_REASON = 1_000


async def listing(call: Call) -> web.Response:
    """Notes, the newest first, open and closed; of one status, workflow or subject."""
    given = call.query("status", "workflow", "subject", page=True)
    page = call.page(given, 2)
    status = call.choice(given, "status", _STATUSES)
    rows = await call.services.reader.read(
        lambda connection: store.page(
            connection,
            call.project,
            limit=page.limit + 1,
            before=instant_after(page),
            closed=None if status is None else status == "closed",
            workflow_id=given.get("workflow"),
            subject=given.get("subject"),
        )
    )
    return listed(rows, page.limit, lambda row: instant_key(row.created_at, row.id), note_item)


async def close(call: Call) -> web.Response:
    """Close an open note, with the reason: no agent is shown it any more."""
    note_id = call.piece("id")
    reason = _reason((await call.document("reason")).get("reason"))
    now, key = call.services.clock.now(), f"person:{new_id()}"

    def put(connection: sa.Connection) -> NoteRow:
        note = store.get(connection, call.project, note_id)
        came = store.close_note(connection, note.workflow_id, note.subject, note_id, reason, key, now)
        if came != "closed":
            raise Conflict(f"note {note_id} is closed already")
        return store.get(connection, call.project, note_id)

    return answer(note_item(await call.services.writer.run(put)))


def _reason(given: object) -> str:
    text = storable_text(given).strip() if isinstance(given, str) else ""
    if not text or len(text) > _LONGEST_REASON:
        hint = f"say why in 1 to {_LONGEST_REASON} characters"
        raise RequestError("the reason does not fit", hint=hint, path="reason")
    return text
