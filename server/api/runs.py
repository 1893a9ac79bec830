"""/runs: what ran, how, and what people do to it."""

from typing import Any, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.definition.findings import Findings
from loops.definition.plain import plain_object
from loops.errors import NotFound, RequestError
from loops.runs.state import RunStatus
from loops.store import deliveries, run_queries
from loops.store import tasks as store
from server.api.call import Call, Page, answer, instant_after, instant_key, listed
from server.api.export import exported
from server.api.items import run_item, step_item
from server.api.tasks import task_items

_STATUSES = get_args(RunStatus)


async def listing(call: Call) -> web.Response:
    """Runs, the newest first; of one status, workflow or delivery (our id of it or the sender's)."""
    given = call.query("status", "workflow", "delivery", page=True)
    page = call.page(given, 2)
    status = call.choice(given, "status", _STATUSES)
    rows = await call.services.reader.read(
        lambda connection: _page(connection, call.project, page, status, given.get("workflow"), given.get("delivery"))
    )
    return listed(rows, page.limit, lambda row: instant_key(row["created_at"], row["id"]), run_item)


def _page(
    connection: sa.Connection, project: str, page: Page, status: str | None, workflow: str | None, delivery: str | None
) -> list[Any]:
    if delivery is not None:
        delivery = _our_id(connection, project, delivery)
    return run_queries.page(
        connection,
        project,
        limit=page.limit + 1,
        before=instant_after(page),
        status=status,
        workflow_id=workflow,
        delivery_id=delivery,
    )


def _our_id(connection: sa.Connection, project: str, wanted: str) -> str:
    try:
        return str(deliveries.find(connection, project, wanted)["id"])
    except NotFound:  # runs are kept longer than their deliveries
        return wanted


async def read(call: Call) -> web.Response:
    """One run with its steps and tasks."""
    run_id = call.piece("id")

    def look(connection: sa.Connection) -> dict[str, Any]:
        row = run_queries.get(connection, call.project, run_id)
        steps = [step_item(step) for step in run_queries.steps(connection, run_id)]
        return {**run_item(row), "steps": steps, "tasks": task_items(connection, store.of_run(connection, run_id))}

    return answer(await call.services.reader.read(look))


async def export(call: Call) -> web.Response:
    """The whole run as one document: definition, event, steps, tasks with every round, messages. Secrets are masked."""
    return answer(await exported(call.services, call.project, call.piece("id")))


async def cancel(call: Call) -> web.Response:
    """Cancel. Its status is `cancelled` once nothing acts any more; 202 while something still does."""
    run_id = call.piece("id")
    await call.document()
    status = await call.services.runs.cancel(call.project, run_id)
    return answer(await _item(call, run_id), 202 if status == "running" else 200)


async def resume(call: Call) -> web.Response:
    """Wake a waiting run now; `payload` is what it wakes with."""
    run_id = call.piece("id")
    body = await call.document("payload")
    findings = Findings()
    payload = plain_object(body.get("payload", {}), findings)
    if findings.faults:
        fault = findings.faults[0]
        raise RequestError(f"the payload cannot be taken: {fault.message}", hint=fault.hint, path="payload")
    await call.services.runs.resume(call.project, run_id, payload)
    return answer(await _item(call, run_id))


async def _item(call: Call, run_id: str) -> dict[str, Any]:
    return run_item(
        await call.services.reader.read(lambda connection: run_queries.get(connection, call.project, run_id))
    )
