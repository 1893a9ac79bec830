"""/runs: what loops did, and the two things a person can do to a run."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import Conflict
from loops.store import run_queries, task_queries
from loops.store.task_queries import Spent
from server.happening import happenings, run_happening
from server.pages.addresses import moment_cursor_text, one_of, path_of, run_cursor, wanted_id
from server.pages.money import brief_cost
from server.pages.rendering import see_other
from server.pages.run import run_page, run_took
from server.pages.visit import Visit

PAGE = 50
STATUSES = ("queued", "running", "waiting", "completed", "failed", "cancelled")


async def list_runs(visit: Visit) -> web.Response:
    """GET /runs"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = run_cursor(query.get("before"))
    narrowed = {name: wanted_id(query[name], name) for name in ("workflow", "delivery", "space") if query.get(name)}

    def read(connection: sa.Connection) -> tuple[list[Mapping[str, Any]], Mapping[str, Spent], Mapping[str, str]]:
        found = run_queries.page(
            connection,
            project,
            limit=PAGE + 1,
            before=before,
            status=status,
            workflow_id=narrowed.get("workflow"),
            delivery_id=narrowed.get("delivery"),
            space=narrowed.get("space"),
        )
        told = happenings(connection, [row["delivery_id"] for row in found if row["delivery_id"]])
        return found, task_queries.spent_by_runs(connection, [row["id"] for row in found]), told

    rows, spent, told = await visit.services.reader.read(read)
    older = None
    if len(rows) > PAGE:
        last = moment_cursor_text(rows[PAGE - 1]["created_at"], rows[PAGE - 1]["id"])
        older = path_of("runs", **narrowed, status=status, before=last)
    return visit.show(
        "runs.html",
        rows=rows[:PAGE],
        statuses=STATUSES,
        chosen=status,
        narrowed=narrowed,
        is_first=before is None,
        older=older,
        whats={row["id"]: run_happening(row, told) for row in rows},
        durations={row["id"]: run_took(row, visit.services.clock.now()) for row in rows},
        costs={row["id"]: brief_cost(spent.get(row["id"]), row["cost"]) for row in rows},
    )


async def cancel_run(visit: Visit) -> web.Response:
    """POST /runs/{id}/cancel"""
    run_id = wanted_id(visit.request.match_info["id"], "run")
    try:
        await visit.services.runs.cancel(visit.who.project_id, run_id)
    except Conflict as error:
        return await run_page(visit, status=409, alert=error.message)
    return see_other(path_of("runs", run_id))


async def resume_run(visit: Visit) -> web.Response:
    """POST /runs/{id}/resume"""
    run_id = wanted_id(visit.request.match_info["id"], "run")
    try:
        await visit.services.runs.resume(visit.who.project_id, run_id, {})
    except Conflict as error:
        return await run_page(visit, status=409, alert=error.message)
    return see_other(path_of("runs", run_id))
