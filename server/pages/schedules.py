"""/schedules: when loops are started, what comes next, what became of the past; and pausing one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from aiohttp import web

from loops.errors import Conflict, ScheduleError
from loops.schedules.preview import Previewed, preview
from loops.schedules.timetable import timetable
from loops.scheduling import timing_of
from loops.store import schedules as store
from loops.store import workflows as workflows_store
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from server.api.items import local_next
from server.api.schedules import STATUSES
from server.pages.addresses import moment_cursor_text, one_of, path_of, schedule_cursor, wanted_id
from server.pages.inert import shown_value
from server.pages.rendering import see_other
from server.pages.visit import Visit
from server.schedule_words import schedule_words

PAGE = 50
AHEAD = 10
_MOST_VARIABLES = 20_000
MADE_GOOD = {
    "last": "the last one that was missed, marked late",
    "all": "each one that was missed, marked late",
    "none": "nothing that was missed",
}


@dataclass(frozen=True, slots=True)
class ScheduleShown:
    """A schedule in a list; `local` is its next occurrence in its own zone."""

    row: ScheduleRow
    workflow: WorkflowRow
    when: str
    local: datetime | None

    @property
    def rests(self) -> str:
        """Why nothing is due of it, empty where something is or nobody needs to be told."""
        if self.row.next_due is not None or self.row.status != "active":
            return ""
        if self.row.fault:
            return f"Cannot fire: {self.row.fault}"
        return f"Its workflow is {self.workflow.status}" if self.workflow.status != "active" else "Nothing is due"


def shown_schedules(pairs: Sequence[tuple[ScheduleRow, WorkflowRow]]) -> list[ScheduleShown]:
    """Schedules with their rules in words."""
    return [ScheduleShown(row, workflow, schedule_words(timing_of(row)), local_next(row)) for row, workflow in pairs]


async def list_schedules(visit: Visit) -> web.Response:
    """GET /schedules"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = schedule_cursor(query.get("before"))
    narrowed = {"workflow": wanted_id(query["workflow"], "workflow")} if query.get("workflow") else {}

    def read(connection: sa.Connection) -> list[tuple[ScheduleRow, WorkflowRow]]:
        workflow = narrowed.get("workflow")
        return store.page(connection, project, limit=PAGE + 1, before=before, workflow_id=workflow, status=status)

    found = await visit.services.reader.read(read)
    older = None
    if len(found) > PAGE:
        last = found[PAGE - 1][0]
        cursor = moment_cursor_text(last.created_at, last.id)
        older = path_of("schedules", **narrowed, status=status, before=cursor)
    return visit.show(
        "schedules.html",
        schedules=shown_schedules(found[:PAGE]),
        statuses=STATUSES,
        chosen=status,
        narrowed=narrowed,
        is_first=before is None,
        older=older,
        can_edit=visit.may("editor"),
    )


async def show_schedule(visit: Visit) -> web.Response:
    """GET /schedules/{id}"""
    return await _page(visit, wanted_id(visit.request.match_info["id"], "schedule"))


async def _page(visit: Visit, schedule_id: str, status: int = 200, alert: str = "") -> web.Response:
    project = visit.who.project_id

    def read(connection: sa.Connection) -> tuple[ScheduleRow, WorkflowRow, list[OccurrenceRow]]:
        row = store.get(connection, project, schedule_id)
        workflow = workflows_store.get(connection, project, row.workflow_id)
        return row, workflow, store.decided(connection, schedule_id, limit=PAGE)

    row, workflow, past = await visit.services.reader.read(read)
    (shown,) = shown_schedules([(row, workflow)])
    now = visit.services.clock.now()
    ahead = await off_loop(lambda: _ahead(row, now))
    return visit.show(
        "schedule.html",
        status,
        alert=alert,
        schedule=shown,
        ahead=ahead,
        past=past,
        made_good=MADE_GOOD.get(row.catch_up, row.catch_up),
        variables=shown_value(dict(row.variables), _MOST_VARIABLES) if row.variables else None,
        can_edit=visit.may("editor"),
    )


def _ahead(row: ScheduleRow, now: datetime) -> list[Previewed]:
    """What comes next, by the function that fires; nothing of a schedule that cannot be read any more."""
    try:
        return preview(timetable(timing_of(row)), now, AHEAD)
    except ScheduleError:
        return []


async def pause_schedule(visit: Visit) -> web.Response:
    """POST /schedules/{id}/pause"""
    schedule_id = wanted_id(visit.request.match_info["id"], "schedule")
    return await _turned(visit, schedule_id, paused=True)


async def resume_schedule(visit: Visit) -> web.Response:
    """POST /schedules/{id}/resume"""
    schedule_id = wanted_id(visit.request.match_info["id"], "schedule")
    return await _turned(visit, schedule_id, paused=False)


async def _turned(visit: Visit, schedule_id: str, *, paused: bool) -> web.Response:
    schedules, project = visit.services.schedules, visit.who.project_id
    try:
        await (schedules.pause if paused else schedules.resume)(project, schedule_id)
    except Conflict as error:
        return await _page(visit, schedule_id, error.http_status, error.message)
    return see_other(path_of("schedules", schedule_id))
