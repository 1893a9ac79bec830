"""/workflows/{id}: one loop: what starts it, what it did lately, what it cost, and its definition."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.changes import shown
from loops.definition import to_yaml
from loops.definition.form import shape_of
from loops.definition.plain import SERVER_KEYS
from loops.definition.stored import stored_trigger, stored_variables
from loops.store import holds, run_queries, task_queries
from loops.store import schedules as schedules_store
from loops.store import workflows as store
from loops.store.holds import HoldRow
from loops.store.run_queries import UnderWay
from loops.store.schedules import ScheduleRow
from loops.store.task_queries import Spent
from loops.store.tasks import owner_can_run
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop
from loops.webhooks import Address
from server.brake_words import brake_words
from server.happening import happenings, run_happening
from server.pages.addresses import wanted_id
from server.pages.forecast import FORM
from server.pages.inert import Shown, shown_value
from server.pages.money import brief_cost, spent_words
from server.pages.run import run_took
from server.pages.schedules import shown_schedules
from server.pages.visit import Visit
from server.quotas import QuotaUse, limits_of, workflow_use
from server.spaces import named_space
from server.trigger_words import trigger_words
from triggers.manual.event import STARTED_BY_HAND

COST_DAYS = 30
_LAST_RUNS = 10
_MOST_HELD = 20
_MOST_YAML = 200_000


@dataclass(frozen=True, slots=True)
class _Read:
    """What one read of the database gave. `running` are tasks, `under_way` runs; `tasks` were created and
    `spent` in the last 30 days."""

    row: WorkflowRow
    runs: list[Mapping[str, Any]]
    told: Mapping[str, str]
    costs: Mapping[str, Spent]
    quota: QuotaUse
    running: int
    under_way: UnderWay
    schedules: list[ScheduleRow]
    spent: Spent
    held: list[HoldRow]
    tasks: int
    address: Address | None
    is_ownerless: bool


async def show_workflow(visit: Visit) -> web.Response:
    """GET /workflows/{id}"""
    return await workflow_page(visit, wanted_id(visit.request.match_info["id"], "workflow"))


async def workflow_page(visit: Visit, workflow_id: str, status: int = 200, alert: str = "") -> web.Response:
    """The page of a workflow, with what went wrong where something did."""
    read = await visit.services.reader.read(lambda connection: _read(connection, visit, workflow_id))
    row, now = read.row, visit.services.clock.now()
    broken = visit.services.definitions.broken
    definition = await off_loop(lambda: _definition(row))
    return visit.show(
        "workflow.html",
        status,
        alert=alert,
        address="" if read.address is None else f"{visit.services.public_url()}/hooks/in/{read.address.token}",
        webhook=read.address,
        variables=_variables(row) if visit.may("editor") and starts_by_hand(row) else None,
        start_key=secrets.token_hex(16),
        row=row,
        trigger=trigger_words(row.definition),
        brakes=brake_words(row.definition),
        held=read.held,
        most_held=_MOST_HELD,
        changed=shape_of(row.definition)[1],
        fault=broken[row.id].reason if row.id in broken else "",
        rows=read.runs,
        whats={run["id"]: run_happening(run, read.told) for run in read.runs},
        durations={run["id"]: run_took(run, now) for run in read.runs},
        costs={run["id"]: brief_cost(read.costs.get(run["id"]), run["cost"]) for run in read.runs},
        quota=read.quota,
        running=read.running,
        under_way=read.under_way,
        schedules=shown_schedules([(one, row) for one in read.schedules]),
        is_scheduled=stored_trigger(row.definition).get("type") == "schedule",
        is_ownerless=read.is_ownerless,
        space=named_space(row.space),
        tasks=read.tasks,
        spent=spent_words(read.spent),
        cost_days=COST_DAYS,
        definition=definition,
        **FORM,
        can_edit=visit.may("editor") and row.status != "archived",
    )


def _read(connection: sa.Connection, visit: Visit, workflow_id: str) -> _Read:
    project, now = visit.who.project_id, visit.services.clock.now()
    row = store.get(connection, project, workflow_id)
    runs = run_queries.page(connection, project, limit=_LAST_RUNS, workflow_id=workflow_id)
    spent, tasks = task_queries.spent_since(connection, workflow_id, now - timedelta(days=COST_DAYS))
    return _Read(
        row=row,
        runs=runs,
        told=happenings(connection, [run["delivery_id"] for run in runs if run["delivery_id"]]),
        costs=task_queries.spent_by_runs(connection, [run["id"] for run in runs]),
        quota=workflow_use(connection, project, workflow_id, limits_of(visit.services.settings), now),
        running=task_queries.under_way(connection, project).get(workflow_id, 0),
        under_way=run_queries.under_way(connection, workflow_id),
        schedules=schedules_store.of_workflow(connection, workflow_id),
        spent=spent,
        held=holds.of_workflow(connection, workflow_id, _MOST_HELD),
        tasks=tasks,
        address=visit.services.webhooks.known(connection, row) if visit.may("editor") else None,
        is_ownerless=row.status == "active" and not owner_can_run(connection, workflow_id),
    )


def starts_by_hand(row: WorkflowRow) -> bool:
    """Whether a person may start it now."""
    return row.status == "active" and stored_trigger(row.definition).get("type") in STARTED_BY_HAND


def _variables(row: WorkflowRow) -> list[Mapping[str, Any]]:
    """The variables that it declares, as fields of a form."""
    return [
        {"key": one["key"], "label": one.get("label") or one["key"], "default": one.get("default", "")}
        for one in stored_variables(row.definition)
    ]


def _definition(row: WorkflowRow) -> Shown:
    """The definition as a file holds it."""
    return shown_value(to_yaml({key: value for key, value in shown(row).items() if key not in SERVER_KEYS}), _MOST_YAML)
