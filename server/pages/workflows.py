"""/workflows: which loops there are, what starts them, and whether they are enabled."""

from dataclasses import dataclass

from aiohttp import web

from loops.changes import Running
from loops.definition.form import shape_of
from loops.errors import Conflict, DefinitionError
from loops.store import workflows as store
from loops.store.workflows import WorkflowRow
from server.pages.addresses import path_of, wanted_id
from server.pages.rendering import see_other
from server.pages.visit import Visit
from server.pages.workflow import workflow_page
from server.trigger_words import TriggerWords, trigger_words

MOST = 500


@dataclass(frozen=True, slots=True)
class WorkflowShown:
    """A workflow in the list. `fault` is why an enabled one cannot listen; a loop `is_changed` where it is more than a
    loop."""

    row: WorkflowRow
    trigger: TriggerWords
    fault: str
    is_changed: bool


async def list_workflows(visit: Visit) -> web.Response:
    """GET /workflows"""
    return await _page(visit)


async def enable_workflow(visit: Visit) -> web.Response:
    """POST /workflows/{id}/enable"""
    workflow_id = wanted_id(visit.request.match_info["id"], "workflow")
    try:
        enabled = await visit.services.workflows.enable(visit.who.project_id, workflow_id, visit.who.token_id)
    except (Conflict, DefinitionError) as error:
        return await _page(visit, status=error.http_status, alert=error.message)
    if enabled.warnings:
        told = "; ".join(str(warning) for warning in enabled.warnings)
        return await _page(visit, alert=f"{enabled.row.name} is enabled. A warning: {told}")
    return _back(visit, workflow_id)


async def disable_workflow(visit: Visit) -> web.Response:
    """POST /workflows/{id}/disable, with what becomes of the runs under way as a field"""
    workflow_id = wanted_id(visit.request.match_info["id"], "workflow")
    said = (await visit.request.post()).get("running")
    running: Running | None = "drain" if said == "drain" else "cancel" if said == "cancel" else None
    try:
        await visit.services.workflows.disable(visit.who.project_id, workflow_id, running=running)
    except Conflict as error:
        return await workflow_page(visit, workflow_id, error.http_status, f"It is not disabled: {error.message}")
    return _back(visit, workflow_id)


def _back(visit: Visit, workflow_id: str) -> web.Response:
    """To the page on which the change was asked for."""
    return see_other(path_of("workflows", workflow_id) if "back" in visit.request.query else path_of("workflows"))


async def _page(visit: Visit, status: int = 200, alert: str = "") -> web.Response:
    project, broken = visit.who.project_id, visit.services.definitions.broken
    rows = await visit.services.reader.read(lambda connection: store.page(connection, project, limit=MOST))
    shown = [
        WorkflowShown(
            row,
            trigger_words(row.definition),
            broken[row.id].reason if row.id in broken else "",
            is_changed=shape_of(row.definition)[0] == "changed",
        )
        for row in rows
    ]
    found = visit.services.sandbox
    return visit.show(
        "workflows.html",
        status,
        workflows=shown,
        can_edit=visit.may("editor"),
        alert=alert,
        no_sandbox=None if found is None else found.fault,
    )
