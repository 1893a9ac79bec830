"""/spaces: where the runs of loops are listed together, and one such list."""

from aiohttp import web

from loops.store import run_queries
from server.happening import happenings, run_happening
from server.pages.addresses import wanted_id
from server.pages.run import run_took
from server.pages.visit import Visit
from server.spaces import known, spaces_of
from server.trigger_words import trigger_words

LAST_RUNS = 25


async def list_spaces(visit: Visit) -> web.Response:
    """GET /spaces"""
    project = visit.who.project_id
    found = await visit.services.reader.read(lambda connection: spaces_of(connection, project))
    return visit.show("spaces.html", spaces=found)


async def show_space(visit: Visit) -> web.Response:
    """GET /spaces/{id}"""
    space, project = wanted_id(visit.request.match_info["id"], "space"), visit.who.project_id
    reader, now = visit.services.reader, visit.services.clock.now()
    loops = await reader.read(lambda connection: known(connection, project, space))
    rows = await reader.read(lambda connection: run_queries.page(connection, project, limit=LAST_RUNS, space=space))
    named = await reader.read(lambda connection: spaces_of(connection, project))
    told = await reader.read(
        lambda connection: happenings(connection, [row["delivery_id"] for row in rows if row["delivery_id"]])
    )
    return visit.show(
        "space.html",
        space=space,
        name=next((one.name for one in named if one.id == space), space),
        loops=[(row, trigger_words(row.definition).kind) for row in loops],
        rows=rows,
        whats={row["id"]: run_happening(row, told) for row in rows},
        durations={row["id"]: run_took(row, now) for row in rows},
    )
