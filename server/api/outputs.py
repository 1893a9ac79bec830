"""What tasks asked to have written, as the API shows it; and what people say of what waits for them."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import NotFound, RequestError
from loops.store import outputs as store
from loops.store import tasks as task_store
from loops.store.outputs import OutputRow
from loops.tasks.outputs.answers import Person, again, happened, sendable
from server.api.call import Call, answer
from server.auth import Principal

MOST_PATCH = 200_000


def output_item(row: OutputRow, most: int = MOST_PATCH) -> dict[str, Any]:
    """An output; of its patch at most so many characters. `reason` says why it was not written, `body` what the agent
    said, `branch` where its change was to be pushed, `answers` what people said of it, `can_send` whether one may have
    it sent."""
    text = None if row.patch is None else row.patch.decode("utf-8", "replace")
    return {
        "task": row.task_id,
        "number": row.number,
        "turn": row.turn,
        "kind": row.kind,
        "repository": row.repository,
        "status": row.status,
        "reason": row.reason,
        "url": row.url or None,
        "branch": row.branch,
        "body": row.body,
        "patch": None if text is None else text[:most],
        "patch_cut": text is not None and len(text) > most,
        "answers": [{name: one[name] for name in ("did", "was", "by", "at")} for one in row.answers],
        "can_send": sendable(row),
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def person_of(principal: Principal) -> Person:
    """Who answers."""
    return Person(principal.project_id, principal.token_id, principal.name)


async def settle(call: Call) -> web.Response:
    """Say of an uncertain output that it was written, at `url`. 409 where there is no doubt of it, or somebody said
    otherwise."""
    this, now, url = _this(call), call.services.clock.now(), (await call.document("url")).get("url")
    if not isinstance(url, str):
        raise RequestError("url is missing", hint="the address of what was written", path="url")
    return await _answered(call, lambda connection: happened(connection, person_of(call.principal), this, url, now))


async def send(call: Call) -> web.Response:
    """Have an output sent that is refused, uncertain or staged: 202, and a process that works on repositories takes it.
    One that is uncertain is looked for first; a change is checked as ever. 409 where it is written, where somebody else
    asked, or where no whole patch is kept."""
    this, now, staged = _this(call), call.services.clock.now(), call.services.settings.staged == "yes"
    await call.document()
    who = person_of(call.principal)
    return await _answered(call, lambda connection: again(connection, who, this, now, staged=staged), 202)


async def patch(call: Call) -> web.Response:
    """The patch of an output as a file for `git apply`, with secrets of this service blotted out."""
    this = _this(call)

    def look(connection: sa.Connection) -> OutputRow | None:
        task_store.get(connection, this[0], call.project)
        return next((one for one in store.of_task(connection, this[0]) if one.number == this[1]), None)

    row = await call.services.reader.read(look)
    if row is None or row.patch is None:
        raise NotFound(f"no patch is kept of output {this[1]} of task {this[0]}")
    name = f"{row.task_id}-{row.number}.patch"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return web.Response(body=row.patch, content_type="text/x-diff", headers=headers)


def _this(call: Call) -> tuple[str, int]:
    return call.piece("id"), call.number("number")


async def _answered(call: Call, fn: Callable[[sa.Connection], OutputRow], status: int = 200) -> web.Response:
    return answer(output_item(await call.services.writer.run(fn)), status)
