"""/quotas: how many tasks may still be created."""

from typing import Any

from aiohttp import web

from server.api.call import Call, answer
from server.quotas import QuotaUse, limits_of, project_use


async def read(call: Call) -> web.Response:
    """Tasks created in the trailing 24 hours, by the project and each of its workflows, and how many run now."""
    services = call.services
    limits, now = limits_of(services.settings), services.clock.now()
    use = await services.reader.read(lambda connection: project_use(connection, call.project, limits, now))
    workflows: list[dict[str, Any]] = [
        {"workflow": one.workflow_id, "workflow_name": one.name, **_item(one.quota), "running": one.running}
        for one in use.workflows
    ]
    project: dict[str, Any] = {**_item(use.quota), "running": use.running}
    return answer({"project": project, "workflows": workflows})


def _item(use: QuotaUse) -> dict[str, Any]:
    frees_at = None if use.frees_at is None else use.frees_at.isoformat()
    return {"used": use.used, "limit": use.limit, "free": use.free, "frees_at": frees_at}
