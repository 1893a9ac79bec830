"""What a person says of an output on the page of its run: that it was written, or that it is to be sent."""

from collections.abc import Callable

import sqlalchemy as sa
from aiohttp import web

from loops.errors import Conflict, NotFound, RequestError
from loops.store import tasks as store
from loops.store.outputs import OutputRow
from loops.tasks.outputs.answers import again, happened
from server.api.outputs import person_of
from server.pages.addresses import path_of, wanted_id
from server.pages.rendering import see_other
from server.pages.run import run_page
from server.pages.visit import Visit

_MOST_DIGITS = 9


async def settle_output(visit: Visit) -> web.Response:
    """POST /runs/{id}/outputs/{task}/{number}/settle, with the url as a field"""
    url, now, who = str((await visit.request.post()).get("url", "")).strip(), visit.services.clock.now(), visit.who
    return await _answered(visit, lambda connection, this: happened(connection, person_of(who), this, url, now))


async def send_output(visit: Visit) -> web.Response:
    """POST /runs/{id}/outputs/{task}/{number}/send"""
    now, who, staged = visit.services.clock.now(), visit.who, visit.services.settings.staged == "yes"
    return await _answered(visit, lambda connection, this: again(connection, person_of(who), this, now, staged=staged))


async def _answered(visit: Visit, fn: Callable[[sa.Connection, tuple[str, int]], OutputRow]) -> web.Response:
    pieces, project = visit.request.match_info, visit.who.project_id
    run_id, task_id, number = wanted_id(pieces["id"], "run"), wanted_id(pieces["task"], "task"), pieces["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        raise NotFound(f"{number[:60]!r} is not the number of an output")
    this = (task_id, int(number))

    def write(connection: sa.Connection) -> OutputRow:
        if store.get(connection, task_id, project).run_id != run_id:
            raise NotFound(f"run {run_id} has no task {task_id!r}")
        return fn(connection, this)

    try:
        await visit.services.writer.run(write)
    except (Conflict, RequestError) as error:
        hint = f" {error.hint}." if error.hint else ""
        return await run_page(visit, error.http_status, f"{error.message}.{hint}")
    return see_other(f"{path_of('runs', run_id)}#output-{task_id}-{number}")
