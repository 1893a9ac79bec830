"""Tools that say when workflows are started."""

from collections.abc import Mapping

from loops.schedules.preview import MOST
from server.api.schedules import STATUSES
from server.mcp.schemas import PAGE, Schema, choice, identity, open_object, takes, text, whole
from server.mcp.tool import ADDS, ENDS, OVERWRITES, READS, SETS, Tool, route

_WORKFLOW = identity("The workflow's id, from workflows-list.")
_SCHEDULE = identity("The schedule's id, from workflows-schedule-list.")
_OF_WORKFLOW = {"workflow_id": "id", "schedule_id": "schedule"}
_ONE: Mapping[str, Schema] = {"workflow_id": _WORKFLOW, "schedule_id": _SCHEDULE}
_COUNT = whole("How many occurrences.", 1, MOST, 10)
_TIMING: Mapping[str, Schema] = {
    "rrule": text(
        "How often: FREQ=HOURLY;INTERVAL=1, FREQ=DAILY;INTERVAL=1, FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR, "
        "FREQ=WEEKLY;INTERVAL=1;BYDAY=<MO..SU>, or once: FREQ=DAILY;COUNT=1. The time of day is that of starts_at: no "
        "BYHOUR, no BYMINUTE.",
        500,
    ),
    "starts_at": text("The first run, in the future, with its offset from UTC: 2026-12-01T09:00:00+01:00.", 40),
    "cron": text("In place of rrule and starts_at, five fields: 0 9 * * MON-FRI.", 100),
    "timezone": text("The person's IANA zone, as Europe/Berlin; UTC where a new one names none.", 60),
    "catch_up": choice("What of runs that were missed while no service ran is made up for.", "last", "none", "all"),
    "variables": open_object("Values in place of the defaults of the workflow's variables."),
}

TOOLS = (
    Tool(
        "workflows-schedule-list",
        READS,
        route("GET", "/schedules"),
        "List schedules with their next run: of one workflow, or of all.",
        takes(workflow_id=_WORKFLOW, status=choice("Only those of this status.", *STATUSES), **PAGE),
        renamed={"workflow_id": "workflow"},
    ),
    Tool(
        "workflows-schedule-preview",
        READS,
        route("POST", "/workflows/{id}/schedules/preview"),
        "The next runs that a schedule would start, without storing it, and what is odd about it. Show them to the "
        "person before workflows-schedule-create.",
        takes("workflow_id", workflow_id=_WORKFLOW, count=_COUNT, **_TIMING),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-schedule-create",
        ADDS,
        route("POST", "/workflows/{id}/schedules"),
        "Give a workflow whose trigger is schedule another schedule. It starts nothing while the workflow is a draft.",
        takes("workflow_id", workflow_id=_WORKFLOW, **_TIMING),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-update-schedule",
        OVERWRITES,
        route("PATCH", "/workflows/{id}/schedules/{schedule}"),
        "Change what is given of a schedule. Another timing begins from now; a paused one stays paused.",
        takes("workflow_id", "schedule_id", **_ONE, **_TIMING),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-schedule-pause",
        ENDS,
        route("POST", "/workflows/{id}/schedules/{schedule}/pause"),
        "Start nothing by a schedule until it is resumed.",
        takes("workflow_id", "schedule_id", **_ONE),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-schedule-resume",
        SETS,
        route("POST", "/workflows/{id}/schedules/{schedule}/resume"),
        "Go on with a paused schedule, from now; what lay in the pause is not made up for.",
        takes("workflow_id", "schedule_id", **_ONE),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-schedule-delete",
        ENDS,
        route("DELETE", "/workflows/{id}/schedules/{schedule}"),
        "Remove a schedule for good; runs that it started go on.",
        takes("workflow_id", "schedule_id", **_ONE),
        renamed=_OF_WORKFLOW,
    ),
    Tool(
        "workflows-schedule-occurrences",
        READS,
        route("GET", "/workflows/{id}/schedules/{schedule}/occurrences"),
        "What became of the times of a schedule, the latest first: ran, late, missed, skipped or refused.",
        takes("workflow_id", "schedule_id", **_ONE, **PAGE),
        renamed=_OF_WORKFLOW,
    ),
)
