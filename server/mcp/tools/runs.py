"""Tools that look at runs and their tasks, and that end or wake one."""

from typing import get_args

from loops.runs.state import RunStatus
from server.api.call import MOST_ITEMS
from server.api.workflow_logs import LEVELS
from server.mcp.schemas import PAGE, choice, identity, open_object, takes, text, whole
from server.mcp.tool import ENDS, OVERWRITES, READS, Tool, route

_RUN = identity("The run's id, from workflows-list-invocations.")
_TASK = identity("The task's id, from workflows-get-invocation or tasks-list.")
_PERIOD = {
    "after": text("Where the period begins, as 2026-11-30T09:00:00Z; 7 days ago without it."),
    "before": text("Where it ends; now without it."),
}

TOOLS = (
    Tool(
        "workflows-list-invocations",
        READS,
        route("GET", "/runs"),
        "List runs, the newest first: what started each, how it stands or ended and why, and what it cost.",
        takes(
            id=identity("Only runs of this workflow."),
            status=choice("Only runs of this status.", *get_args(RunStatus)),
            delivery=identity("Only runs that this delivery started."),
            space=identity("Only runs that are listed in this space."),
            **PAGE,
        ),
        outside=True,
        renamed={"id": "workflow"},
    ),
    Tool(
        "workflows-get-invocation",
        READS,
        route("GET", "/runs/{id}"),
        "Read one run: its steps with their results, errors and log lines, and its AI tasks.",
        takes("id", id=_RUN),
        outside=True,
    ),
    Tool(
        "workflows-cancel-invocation",
        ENDS,
        route("POST", "/runs/{id}/cancel"),
        "Cancel a run and its AI task. Its status is cancelled once nothing acts any more.",
        takes("id", id=_RUN),
        outside=True,
    ),
    Tool(
        "workflows-resume-invocation",
        OVERWRITES,
        route("POST", "/runs/{id}/resume"),
        "Wake a run that waits, now. Only one caller can: another gets a conflict.",
        takes("id", id=_RUN, payload=open_object("What it wakes with.")),
        outside=True,
    ),
    Tool(
        "workflows-logs",
        READS,
        route("GET", "/workflows/{id}/logs"),
        "Read what the steps of a workflow's latest runs logged and how they failed, the newest first.",
        takes(
            "id",
            id=identity("The workflow's id, from workflows-list."),
            level=choice("error: only how steps failed.", *LEVELS),
            search=text("Only lines that hold this text.", 300),
            limit=whole("How many runs to look at.", 1, MOST_ITEMS, 10),
            cursor=PAGE["cursor"],
        ),
        outside=True,
    ),
    Tool(
        "workflows-stats",
        READS,
        route("GET", "/stats"),
        "How the runs of one workflow that began in a period went: by status, with AI tasks, tokens and cost.",
        takes("id", id=identity("The workflow's id, from workflows-list."), **_PERIOD),
        renamed={"id": "workflow"},
    ),
    Tool(
        "workflows-global-stats",
        READS,
        route("GET", "/stats"),
        "The same for every workflow that had a run in a period.",
        takes(**_PERIOD),
    ),
    Tool(
        "tasks-list",
        READS,
        route("GET", "/tasks"),
        "List AI tasks, the newest first, with status, reason, rounds, tokens and cost.",
        takes(workflow=identity("Only tasks of this workflow."), **PAGE),
        outside=True,
    ),
    Tool(
        "tasks-trace",
        READS,
        route("GET", "/tasks/{id}/trace"),
        "Read what the agent of a task was told, every round of it (thought, calls, results), and its result.",
        takes("id", id=_TASK),
        outside=True,
    ),
)
