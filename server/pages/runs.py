"""/runs: what loops did, step by step, and the two things a person can do to a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import Conflict
from loops.runs.state import OVER
from loops.store import run_queries
from loops.store import workflows as workflows_store
from server.pages.addresses import one_of, path_of, run_cursor, run_cursor_text, wanted_id
from server.pages.inert import Shown, shown_value
from server.pages.rendering import see_other
from server.pages.visit import Visit
from server.pages.words import took

PAGE = 50
STATUSES = ("queued", "running", "waiting", "completed", "failed", "cancelled")
MOST_RESULT = 20_000
MOST_LOG = 64_000


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step on the page of its run. `hidden_lines` is how many lines of its log are left out."""

    id: str
    name: str
    type: str
    status: str
    started_at: datetime | None
    took: str | None
    lines: Sequence[Mapping[str, str]]
    hidden_lines: int
    result: Shown | None
    error: Mapping[str, Any] | None


async def list_runs(visit: Visit) -> web.Response:
    """GET /runs"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = run_cursor(query.get("before"))
    narrowed = {name: wanted_id(query[name], name) for name in ("workflow", "delivery") if query.get(name)}

    def read(connection: sa.Connection) -> list[Mapping[str, Any]]:
        return run_queries.page(
            connection,
            project,
            limit=PAGE + 1,
            before=before,
            status=status,
            workflow_id=narrowed.get("workflow"),
            delivery_id=narrowed.get("delivery"),
        )

    rows = await visit.services.reader.read(read)
    older = None
    if len(rows) > PAGE:
        last = run_cursor_text(rows[PAGE - 1]["created_at"], rows[PAGE - 1]["id"])
        older = path_of("runs", **narrowed, status=status, before=last)
    return visit.show(
        "runs.html",
        rows=rows[:PAGE],
        statuses=STATUSES,
        chosen=status,
        narrowed=narrowed,
        is_first=before is None,
        older=older,
        durations={row["id"]: _took(row, visit.services.clock.now()) for row in rows},
    )


async def show_run(visit: Visit) -> web.Response:
    """GET /runs/{id}"""
    return await _page(visit)


async def cancel_run(visit: Visit) -> web.Response:
    """POST /runs/{id}/cancel"""
    run_id = wanted_id(visit.request.match_info["id"], "run")
    try:
        await visit.services.runs.cancel(visit.who.project_id, run_id)
    except Conflict as error:
        return await _page(visit, status=409, alert=error.message)
    return see_other(path_of("runs", run_id))


async def resume_run(visit: Visit) -> web.Response:
    """POST /runs/{id}/resume"""
    run_id = wanted_id(visit.request.match_info["id"], "run")
    try:
        await visit.services.runs.resume(visit.who.project_id, run_id, {})
    except Conflict as error:
        return await _page(visit, status=409, alert=error.message)
    return see_other(path_of("runs", run_id))


async def _page(visit: Visit, status: int = 200, alert: str = "") -> web.Response:
    run_id = wanted_id(visit.request.match_info["id"], "run")
    project, now = visit.who.project_id, visit.services.clock.now()
    run, steps = await visit.services.reader.read(lambda connection: _read(connection, project, run_id, now))
    is_open = run["status"] not in OVER
    return visit.show(
        "run.html",
        status,
        run=run,
        steps=steps,
        variables=_value(run["state"].get("variables")),
        took=_took(run, now),
        is_open=is_open,
        can_cancel=is_open and visit.may("editor"),
        can_resume=run["status"] == "waiting" and visit.may("editor"),
        alert=alert,
        now=now,
    )


def _read(
    connection: sa.Connection, project: str, run_id: str, now: datetime
) -> tuple[Mapping[str, Any], list[StepShown]]:
    run = run_queries.get(connection, project, run_id)
    rows = run_queries.steps(connection, run_id)
    steps = [_step(row, now) for row in rows]
    acts_now = run["position"]
    if run["status"] in {"running", "queued"} and acts_now and acts_now not in {row["step_id"] for row in rows}:
        definition = workflows_store.revision(connection, run["workflow_id"], run["version"]) or {}
        steps.append(_coming(acts_now, definition, str(run["status"])))
    return run, steps


def _step(row: Mapping[str, Any], now: datetime) -> StepShown:
    lines, hidden = _within(row["log"] or (), MOST_LOG)
    return StepShown(
        id=row["step_id"],
        name=row["name"] or row["step_id"],
        type=row["type"],
        status=row["status"],
        started_at=row["started_at"],
        took=took(row["started_at"], row["finished_at"] or now),
        lines=lines,
        hidden_lines=hidden,
        result=_value(row["result"]),
        error=row["error"],
    )


def _coming(action_id: str, definition: Mapping[str, Any], status: str) -> StepShown:
    """The step that acts next or now: it has no row before it is over or waits."""
    actions = definition.get("actions") or ()
    action: Mapping[str, Any] = next((one for one in actions if one.get("id") == action_id), {})
    name, kind = action.get("name") or action_id, action.get("type", "")
    return StepShown(action_id, name, kind, status, None, None, (), 0, None, None)


def _within(lines: Sequence[Mapping[str, str]], most: int) -> tuple[Sequence[Mapping[str, str]], int]:
    """The lines that fit into so many characters, and how many do not."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line["text"])
        if size > most:
            return lines[:number], len(lines) - number
    return lines, 0


def _value(value: Any) -> Shown | None:  # noqa: ANN401
    return None if value is None or value == {} else shown_value(value, MOST_RESULT)


def _took(run: Mapping[str, Any], now: datetime) -> str | None:
    return took(run["started_at"], run["finished_at"] or now)
