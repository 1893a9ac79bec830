"""/runs: what ran, how, and what people do to it."""

from collections.abc import Mapping
from typing import Any, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.definition.findings import Findings
from loops.definition.plain import plain_object
from loops.errors import NotFound, RequestError
from loops.runs.state import RunStatus
from loops.store import deliveries, run_queries
from loops.store import tasks as store
from server.api.call import Call, Page, answer, instant_after, instant_key, listed, prefix_of
from server.api.export import exported
from server.api.items import run_item, step_item
from server.api.tasks import task_items
from server.happening import happenings
from server.spaces import known

_STATUSES = get_args(RunStatus)


async def listing(call: Call) -> web.Response:
    """Runs, the newest first; of one status, workflow or delivery (our id of it or the sender's; 404 where there is no
    such delivery and no run of it), listed in a `space` (its id; 404 where there is none), or whose
    ids begin with `prefix`."""
    given = call.query("status", "workflow", "delivery", "prefix", "space", page=True)
    page = call.page(given, 2)
    call.choice(given, "status", _STATUSES)
    rows, told = await call.services.reader.read(lambda connection: _page(connection, call.project, page, given))
    return listed(
        rows, page.limit, lambda row: instant_key(row["created_at"], row["id"]), lambda row: run_item(row, told)
    )


def _page(
    connection: sa.Connection, project: str, page: Page, given: Mapping[str, str]
) -> tuple[list[Mapping[str, Any]], Mapping[str, str]]:
    delivery, space = given.get("delivery"), given.get("space")
    rows = run_queries.page(
        connection,
        project,
        limit=page.limit + 1,
        before=instant_after(page),
        status=given.get("status"),
        workflow_id=given.get("workflow"),
        delivery_id=None if delivery is None else _our_id(connection, project, delivery),
        prefix=prefix_of(given),
        space=space,
    )
    if space is not None and not rows:
        known(connection, project, space)
    return rows, happenings(connection, [row["delivery_id"] for row in rows if row["delivery_id"]])


def _our_id(connection: sa.Connection, project: str, wanted: str) -> str:
    try:
        return str(deliveries.find(connection, project, wanted)["id"])
    except NotFound:  # runs are kept longer than their deliveries
        if not run_queries.page(connection, project, limit=1, delivery_id=wanted):
            raise
        return wanted


async def read(call: Call) -> web.Response:
    """One run with its steps and tasks."""
    run_id = call.piece("id")

    def look(connection: sa.Connection) -> dict[str, Any]:
        row = run_queries.get(connection, call.project, run_id)
        steps = [step_item(step) for step in run_queries.steps(connection, run_id)]
        told = happenings(connection, [row["delivery_id"]] if row["delivery_id"] else [])
        return {
            **run_item(row, told),
            "steps": steps,
            "tasks": task_items(connection, store.of_run(connection, run_id)),
        }

    return answer(await call.services.reader.read(look))


async def export(call: Call) -> web.Response:
    """The whole run as one document: definition, event, steps, tasks with every round, messages. Secrets are masked."""
    return answer(await exported(call.services, call.project, call.piece("id")))


async def cancel(call: Call) -> web.Response:
    """Cancel. Its status is `cancelled` once nothing acts any more; 202 and `acts` while something still does. A run
    that is over keeps its status: what a task of it still does in its Slack thread is cancelled."""
    run_id = call.piece("id")
    await call.document()
    acts = await call.services.runs.cancel(call.project, run_id) == "running"
    return answer({**await _item(call, run_id), "acts": acts}, 202 if acts else 200)


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
    def look(connection: sa.Connection) -> dict[str, Any]:
        row = run_queries.get(connection, call.project, run_id)
        return run_item(row, happenings(connection, [row["delivery_id"]] if row["delivery_id"] else []))

    return await call.services.reader.read(look)
