"""/spaces: where the runs of loops are listed together."""

from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.store import run_queries
from server.api.call import Call, answer, instant_after, instant_key, page_end
from server.api.items import run_item, workflow_item
from server.happening import happenings
from server.spaces import Space, known, spaces_of


async def listing(call: Call) -> web.Response:
    """Every space that a loop of the project names, with the loops that list their runs there."""
    found = await call.services.reader.read(lambda connection: spaces_of(connection, call.project))
    return answer({"items": [_item(one) for one in found], "next": None})


async def read(call: Call) -> web.Response:
    """One space: its loops, and as `items` its feed, which is every run that is listed there, the newest first."""
    space = call.piece("id")
    page = call.page(call.query(page=True), 2)

    def look(connection: sa.Connection) -> dict[str, Any]:
        loops = known(connection, call.project, space)
        before = instant_after(page)
        found = run_queries.page(connection, call.project, limit=page.limit + 1, before=before, space=space)
        named = [one for one in spaces_of(connection, call.project) if one.id == space]
        told = happenings(connection, [row["delivery_id"] for row in found if row["delivery_id"]])
        return {
            "id": space,
            "name": named[0].name if named else space,
            "workflows": [workflow_item(one) for one in loops],
            "items": [run_item(row, told) for row in found[: page.limit]],
            "next": page_end(found, page.limit, lambda row: instant_key(row["created_at"], row["id"])),
        }

    return answer(await call.services.reader.read(look))


def _item(space: Space) -> dict[str, Any]:
    loops = [{"id": one.id, "name": one.name, "status": one.status} for one in space.loops]
    return {"id": space.id, "name": space.name, "workflows": loops}
