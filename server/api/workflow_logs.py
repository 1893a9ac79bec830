"""/workflows/{id}/logs: what the steps of a workflow's runs wrote, and their errors."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.store import run_queries
from loops.store import workflows as store
from server.api.call import Call, Page, answer, instant_after, instant_key, page_end

LEVELS = ("info", "error")
_USUAL_RUNS = 10


async def read(call: Call) -> web.Response:
    """Lines of the latest runs, the newest first: what steps logged (`info`) and how they failed (`error`); with
    `search`, those that hold that text. `limit` counts runs, 10 without it, and `next` goes on with older ones."""
    given = dict(call.query("level", "search", page=True))
    page = call.page({"limit": str(_USUAL_RUNS), **given}, 2)
    level = call.choice(given, "level", LEVELS)
    wanted, workflow_id = given.get("search", "").lower(), call.piece("id")
    rows, lines = await call.services.reader.read(lambda connection: _read(connection, call.project, workflow_id, page))
    kept = [
        line
        for line in lines
        if (level is None or line["level"] == level) and (not wanted or wanted in line["message"].lower())
    ]
    following = page_end(rows, page.limit, lambda row: instant_key(row["created_at"], row["id"]))
    return answer({"items": kept, "next": following})


def _read(
    connection: sa.Connection, project: str, workflow_id: str, page: Page
) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    store.get(connection, project, workflow_id)
    before = instant_after(page)
    rows = run_queries.page(connection, project, limit=page.limit + 1, before=before, workflow_id=workflow_id)
    lines = [line for row in rows[: page.limit] for line in _lines(connection, row)]
    return rows, lines


def _lines(connection: sa.Connection, run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for step in reversed(run_queries.steps(connection, run["id"])):
        place = {"run": run["id"], "step": step["step_id"]}
        if step["error"]:
            at = step["finished_at"] or step["started_at"]
            yield {"timestamp": at.isoformat(), "level": "error", "message": step["error"]["message"], **place}
        for line in reversed(step["log"] or ()):
            yield {"timestamp": line["at"], "level": "info", "message": line["text"], **place}
