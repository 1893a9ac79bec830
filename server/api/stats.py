"""/stats: how the runs of each workflow went in a period."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.store import run_queries, task_queries
from server.api.call import Call, answer, instant

_DAYS = 7


async def read(call: Call) -> web.Response:
    """How many runs of each workflow began since `after` (7 days ago without it) and before `before`, by how they stand
    now, with their AI tasks, tokens and cost; of one workflow. Workflows without a run are left out."""
    given = call.query("workflow", "after", "before")
    now = call.services.clock.now()
    after = instant(given["after"], "after") if "after" in given else now - timedelta(days=_DAYS)
    before = instant(given["before"], "before") if "before" in given else now

    def look(connection: sa.Connection) -> list[dict[str, Any]]:
        return _items(connection, call.project, given.get("workflow"), (after, before))

    items = await call.services.reader.read(look)
    return answer({"after": after.isoformat(), "before": before.isoformat(), "items": items, "next": None})


def _items(
    connection: sa.Connection, project: str, workflow: str | None, period: tuple[datetime, datetime]
) -> list[dict[str, Any]]:
    runs = run_queries.by_status(connection, project, period, workflow)
    spent = task_queries.spent_by_workflows(connection, runs.keys(), period)
    names = task_queries.workflow_names(connection, runs.keys())
    items = []
    for one, counts in runs.items():
        sums, tasks = spent.get(one, (task_queries.NOTHING, 0))
        items.append(
            {
                "workflow": one,
                "workflow_name": names.get(one, one),
                "runs": sum(counts.values()),
                "by_status": counts,
                "tasks": tasks,
                "input_tokens": sums.input,
                "output_tokens": sums.output,
                "cost": sums.known,
            }
        )
    return sorted(items, key=lambda item: (-item["runs"], item["workflow"]))
