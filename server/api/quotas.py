"""/quotas: how many tasks may still be created, and what may still be spent."""

from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import RequestError
from loops.event import JsonValue
from loops.store import projects
from loops.tasks.allowance import checked_overrides
from server.api.call import Call, answer
from server.quotas import ProjectUse, QuotaUse, Slot, SpendingUse, limits_of, limits_of_project, project_use


async def read(call: Call) -> web.Response:
    """Tasks created in the trailing 24 hours and what was spent, by the project and each of its workflows, of how much,
    how many tasks may be created now (`free`) or when the next may (`frees_at`, by budgets too), and how many run.
    `own` are the quotas that the project has in place of the installation's."""
    services = call.services
    now = services.clock.now()

    def look(connection: sa.Connection) -> tuple[ProjectUse, dict[str, JsonValue], Any]:
        limits = limits_of(services.settings)
        task = limits_of_project(connection, call.project, limits).spending.task
        own = dict(projects.quotas(connection, call.project))
        return project_use(connection, call.project, limits, now), own, task

    use, own, task = await services.reader.read(look)
    workflows: list[dict[str, Any]] = [
        {
            "workflow": one.workflow_id,
            "workflow_name": one.name,
            **_item(one.quota, one.slot),
            "running": one.running,
            "spent": _spending(one.spending),
        }
        for one in use.workflows
    ]
    project: dict[str, Any] = {**_item(use.quota, use.slot), "running": use.running, "spent": _spending(use.spending)}
    limit = {"token_limit": task.tokens, "cost_limit": _amount(task.cost)}
    return answer({"project": project, "workflows": workflows, "task": limit, "own": own})


async def replace(call: Call) -> web.Response:
    """Set the quotas that the project has in place of the installation's: an object with any of workflow_tasks,
    project_tasks, task_tokens, workflow_tokens, project_tokens, task_cost, workflow_cost, project_cost. What it leaves
    out is the installation's again."""
    given = (await call.document("quotas")).get("quotas")
    if not isinstance(given, dict):
        raise RequestError("quotas are no object", hint='as {"quotas": {"project_tokens": 2000000}}', path="quotas")
    own = checked_overrides(given)
    await call.services.writer.run(lambda connection: projects.set_quotas(connection, call.project, own))
    return answer({"own": own})


def _item(use: QuotaUse, slot: Slot) -> dict[str, Any]:
    """`free` is how many tasks may be created now and `frees_at` when the next may, by budgets too."""
    frees_at = None if slot.at is None else slot.at.isoformat()
    return {"used": use.used, "limit": use.limit, "free": 0 if slot.is_full else use.free, "frees_at": frees_at}


def _spending(use: SpendingUse) -> dict[str, Any]:
    """`cost` is what is known of it: `unpriced` tells how many requests have no known price."""
    return {
        "tokens": use.spent.tokens,
        "token_limit": use.allowance.tokens,
        "cost": float(use.spent.cost),
        "cost_limit": _amount(use.allowance.cost),
        "unpriced": use.spent.unpriced,
    }


def _amount(cost: Any) -> float | None:  # noqa: ANN401
    return None if cost is None else float(cost)
