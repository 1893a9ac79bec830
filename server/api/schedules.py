"""/schedules and /workflows/{id}/schedules: when workflows are started, what is next, and what became of the past."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from aiohttp import web

from loops.errors import NotFound, RequestError
from loops.schedules.draft import KEYS
from loops.schedules.preview import MOST, preview
from loops.schedules.timetable import timetable
from loops.scheduling import SavedSchedule, timing_of
from loops.store import schedules as store
from loops.store import workflows as workflows_store
from loops.store.schedules import ScheduleRow
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from server.api.call import Call, answer, instant_after, instant_key, listed
from server.api.errors import faults_shown
from server.api.items import occurrence_item, previewed_item, schedule_item

STATUSES: Final = ("active", "paused", "completed")

_USUAL = 10


async def listing(call: Call) -> web.Response:
    """Schedules of the project, the newest first; of one workflow, or of one status."""
    given = call.query("workflow", "status", page=True)
    return await _listed(call, given, given.get("workflow"))


async def of_workflow(call: Call) -> web.Response:
    """The schedules of a workflow, the newest first."""
    workflow = call.piece("id")
    await call.services.workflows.get(call.project, workflow)
    return await _listed(call, call.query("status", page=True), workflow)


async def _listed(call: Call, given: Mapping[str, str], workflow: str | None) -> web.Response:
    page, status = call.page(given, 2), call.choice(given, "status", STATUSES)

    def look(connection: sa.Connection) -> list[tuple[ScheduleRow, WorkflowRow]]:
        before, limit = instant_after(page), page.limit + 1
        return store.page(connection, call.project, limit=limit, before=before, workflow_id=workflow, status=status)

    rows = await call.services.reader.read(look)
    return listed(
        rows, page.limit, lambda row: instant_key(row[0].created_at, row[0].id), lambda row: schedule_item(*row)
    )


async def read(call: Call) -> web.Response:
    """One schedule, by its id alone."""
    return answer(schedule_item(*await _found(call, call.piece("id"), None)))


async def read_of_workflow(call: Call) -> web.Response:
    """One schedule of a workflow."""
    return answer(schedule_item(*await _of_path(call)))


async def create(call: Call) -> web.Response:
    """Give the workflow another schedule: `rrule` with `starts_at`, or `cron`. `warnings` are what is odd about it."""
    body = await call.document(*KEYS)
    saved = await call.services.schedules.create(call.project, call.piece("id"), body)
    return answer(await _saved(call, saved), 201)


async def update(call: Call) -> web.Response:
    """Change what is given. Another timing begins from now, never in the past; a schedule that was over goes on, a
    paused one stays paused."""
    row, _ = await _of_path(call)
    body = await call.document(*KEYS)
    return answer(await _saved(call, await call.services.schedules.update(call.project, row.id, body)))


async def delete(call: Call) -> web.Response:
    """Remove it; runs that it started go on."""
    row, _ = await _of_path(call)
    await call.services.schedules.delete(call.project, row.id)
    return web.Response(status=204)


async def pause(call: Call) -> web.Response:
    """Fire nothing until it is resumed."""
    row, workflow = await _of_path(call)
    await call.document()
    return answer(schedule_item(await call.services.schedules.pause(call.project, row.id), workflow))


async def resume(call: Call) -> web.Response:
    """Go on from now; what lay in the pause is not fired. 409 for one that is over."""
    row, workflow = await _of_path(call)
    await call.document()
    return answer(schedule_item(await call.services.schedules.resume(call.project, row.id), workflow))


async def upcoming(call: Call) -> web.Response:
    """Its next `count` occurrences (10), in UTC and in its zone, with a mark where clocks change: those that will fire,
    if nothing is changed or paused."""
    row, _ = await _of_path(call)
    count = _count(call.query("count").get("count"))
    now = call.services.clock.now()
    found = await off_loop(lambda: preview(timetable(timing_of(row)), now, count))
    return answer({"items": [previewed_item(one) for one in found], "next": None})


async def preview_draft(call: Call) -> web.Response:
    """The next `count` occurrences of a schedule that is not stored, and what would be odd about it."""
    body = await call.document(*KEYS, "count")
    count = _count(body.pop("count", None))
    draft = await call.services.schedules.draft(call.project, call.piece("id"), body)
    now = call.services.clock.now()
    found = await off_loop(lambda: preview(timetable(draft.timing), now, count))
    return answer({"items": [previewed_item(one) for one in found], "warnings": faults_shown(draft.warnings)})


async def past(call: Call) -> web.Response:
    """What became of its occurrences, the latest first: ran, late, missed, skipped or refused, with the run."""
    row, _ = await _of_path(call)
    page = call.page(call.query(page=True), 2)
    before = instant_after(page)

    def look(connection: sa.Connection) -> list[store.OccurrenceRow]:
        return store.decided(connection, row.id, limit=page.limit + 1, before=None if before is None else before[0])

    rows = await call.services.reader.read(look)
    return listed(rows, page.limit, lambda one: instant_key(one.due_at, row.id), occurrence_item)


async def _of_path(call: Call) -> tuple[ScheduleRow, WorkflowRow]:
    return await _found(call, call.piece("schedule"), call.piece("id"))


async def _found(call: Call, schedule: str, workflow: str | None) -> tuple[ScheduleRow, WorkflowRow]:
    def look(connection: sa.Connection) -> tuple[ScheduleRow, WorkflowRow]:
        row = store.get(connection, call.project, schedule)
        if workflow not in (None, row.workflow_id):
            raise NotFound(f"workflow {workflow!r} has no schedule {schedule!r}", hint="see: loops schedules")
        return row, workflows_store.get(connection, call.project, row.workflow_id)

    return await call.services.reader.read(look)


async def _saved(call: Call, saved: SavedSchedule) -> dict[str, Any]:
    workflow = await call.services.workflows.get(call.project, saved.row.workflow_id)
    return {**schedule_item(saved.row, workflow), "warnings": faults_shown(saved.warnings)}


def _count(given: object) -> int:
    if given is None:
        return _USUAL
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST)) and 1 <= int(text) <= MOST):
        raise RequestError(f"{text[:20]!r} is no number of occurrences", hint=f"from 1 to {MOST}", path="count")
    return int(text)
