"""The quotas of tasks, exact when many start at once, on both databases."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections, projects, spendings
from loops.store.tables import workflows
from loops.store.task_tables import tasks
from loops.tasks.allowance import Allowance, Allowances, Limits
from loops.tasks.quota import QuotaLimits
from loops.tasks.service import NotAllowed, TaskRequest, TaskService, Unfit
from tests.integration.running import PROJECT, Running, eventually, issue, log_action, running, workflow
from tests.integration.tasking import ends, scripted, task_action

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("quotas")
    async with running(folder, module_database_url, wiring=scripted(lambda: [ends()])) as started:
        yield started


async def used(service: Running, workflow_id: str, count: int, first: datetime, status: str = "completed") -> None:
    """Tasks that the workflow has had, a second apart, the oldest at `first`."""

    def fill(connection: sa.Connection) -> None:
        for number in range(count):
            moment = first + timedelta(seconds=number)
            connection.execute(
                tasks.insert().values(
                    id=uuid.uuid4().hex[:24],
                    project_id=PROJECT,
                    workflow_id=workflow_id,
                    run_id="earlier",
                    step_id="task",
                    key=uuid.uuid4().hex,
                    title="earlier",
                    status=status,
                    ending="done",
                    reason="",
                    model="",
                    request={"system": "", "opening": ""},
                    seq=0,
                    restarts=0,
                    rounds=0,
                    input_tokens=0,
                    output_tokens=0,
                    created_at=moment,
                    updated_at=moment,
                )
            )

    await service.write(fill)


async def results(service: Running, workflow_id: str, step: str = "task", *, runs: int = 20) -> list[Mapping[str, Any]]:
    """What the step came to in every run of the workflow, once all are over."""
    rows = await eventually(
        lambda: service.runs(workflow_id),
        lambda found: len(found) == 20 and all(run["status"] in {"completed", "failed"} for run in found),
        patience=60,
    )
    steps = [{one["step_id"]: one for one in await service.steps(run["id"])} for run in rows]
    return [one[step] for one in steps]


async def start_twenty(service: Running, repository: str) -> None:
    answers = await asyncio.gather(*(service.post(issue(repository, number)) for number in range(20)))
    assert {answer["http"] for answer in answers} == {202}


async def test_mq_03_gh_27_of_twenty_that_start_at_once_five_fit_the_quota_and_fifteen_say_when_the_next_may(service):
    first = service.services.clock.now() - timedelta(hours=23)
    step = task_action(inputs={"max_parallel_tasks": 100, "non_failure_status_codes": [409]})
    tells = log_action("tell", "{steps.task.status}: {steps.task.final_message}")
    flow = await service.create(workflow("busy", step, tells, repository="acme/busy"))
    await used(service, flow.id, 95, first)

    await start_twenty(service, "acme/busy")

    found = [one["result"] for one in await results(service, flow.id)]
    assert sorted(one["status"] for one in found) == ["completed"] * 5 + ["skipped"] * 15
    frees = (first + timedelta(hours=24)).replace(microsecond=0) + timedelta(seconds=1)
    reasons = {one["reason"] for one in found if one["status"] == "skipped"}
    limit = "This workflow reached its daily limit of 100 tasks (trailing 24 hours)"
    assert reasons == {f"{limit}. The event was skipped. The next slot frees at {frees:%Y-%m-%d %H:%M:%S} UTC."}
    told = [one["result"]["text"] for one in await results(service, flow.id, "tell")]
    assert sum(text.startswith("skipped: This workflow reached its daily limit") for text in told) == 15


@pytest.mark.parametrize(("minutes", "status"), [(-1, "skipped"), (1, "completed")], ids=["23:59", "24:01"])
async def test_mq_06_a_slot_frees_when_its_task_is_a_day_old(service, minutes, status):
    flow = await service.create(workflow("day", task_action(), repository=f"acme/day{minutes}"))
    created = service.services.clock.now() - timedelta(hours=24, minutes=minutes)
    await used(service, flow.id, 1, created)
    await used(service, flow.id, 99, service.services.clock.now() - timedelta(hours=1))
    run_id = await service.started(flow.id, issue(f"acme/day{minutes}"))

    await service.until(run_id, "completed")

    (step,) = [one for one in await service.steps(run_id) if one["step_id"] == "task"]
    assert step["result"]["status"] == status


async def test_a_key_that_was_answered_before_has_its_first_task_at_the_full_quota(service):
    first = service.services.clock.now() - timedelta(hours=1)
    flow = await service.create(workflow("full", task_action(), repository="acme/full", status="active"))
    limits = QuotaLimits(workflow=3, project=500)
    asked = TaskRequest(PROJECT, flow.id, "no run", "task", f"key:{flow.id}", "Do it.")
    await used(service, flow.id, 2, first)
    creating = TaskService(service.services.clock, service.services.engine, limits)

    made = await service.write(lambda connection: creating.create(connection, asked))
    refused = await service.write(
        lambda connection: creating.create(
            connection, TaskRequest(PROJECT, flow.id, "no run", "task", "another", "Do it.")
        )
    )
    again = await service.write(lambda connection: creating.create(connection, asked))

    assert made.id == again.id
    assert "daily limit of 3 tasks" in refused.reason


async def test_more_tasks_than_may_be_under_way_at_once_are_skipped_with_the_number(service):
    step = task_action(inputs={"max_parallel_tasks": 1, "non_failure_status_codes": [409]})
    flow = await service.create(workflow("narrow", step, repository="acme/narrow"))

    await start_twenty(service, "acme/narrow")

    found = [one["result"] for one in await results(service, flow.id)]
    assert {one["status"] for one in found} <= {"completed", "skipped"}
    assert any(one["status"] == "completed" for one in found)
    reasons = {one["reason"] for one in found if one["status"] == "skipped"}
    assert all("1 tasks in flight (limit 1)" in reason for reason in reasons)
    created = sa.select(sa.func.count()).select_from(tasks).where(tasks.c.workflow_id == flow.id)
    assert await service.read(lambda connection: connection.execute(created).scalar_one()) == sum(
        one["status"] == "completed" for one in found
    )


async def test_a_refusal_that_is_no_success_fails_the_step_and_creates_nothing(service):
    step = task_action(inputs={"non_failure_status_codes": [500]})
    flow = await service.create(workflow("strict", step, repository="acme/strict"))
    await used(service, flow.id, 100, service.services.clock.now() - timedelta(hours=1))
    run_id = await service.started(flow.id, issue("acme/strict"))

    row = await service.until(run_id, "failed")

    assert "Task not created (409)" in row["reason"]


async def test_a_workflow_whose_owner_was_revoked_creates_no_task(service):
    flow = await service.create(workflow("orphan", task_action(), repository="acme/orphan"))
    await service.write(lambda connection: connection.execute(_forget_owner(flow.id)))
    run_id = await service.started(flow.id, issue("acme/orphan"))

    row = await service.until(run_id, "failed")

    assert "no owner who can run tasks" in row["reason"]


def _forget_owner(workflow_id: str) -> sa.Update:
    return workflows.update().where(workflows.c.id == workflow_id).values(enabled_by=None)


# The checks of a task in their order: each of them would refuse, and the first one does.


class Order:
    """A task that every check refuses, and what mends them one after the other."""

    def __init__(self, service: Running, workflow_id: str, lacking: list[Unfit]) -> None:
        self.service = service
        self.key = f"order:{uuid.uuid4()}"
        self.workflow_id = workflow_id
        self.limits = Limits(QuotaLimits(workflow=2, project=500), Allowances(workflow=Allowance(tokens=10)))
        self.lacking = lacking

    async def create(self, **more: Any) -> Any:
        asked = TaskRequest(PROJECT, self.workflow_id, "no run", "task", more.pop("key", self.key), "Do it.", **more)
        creating = TaskService(
            self.service.services.clock,
            self.service.services.engine,
            self.limits,
            lambda *_: self.lacking[0] if self.lacking else None,
        )
        return await self.service.write(lambda connection: creating.create(connection, asked))

    async def use(self, tokens: int, hours: float) -> None:
        def put(connection: sa.Connection) -> None:
            moment = self.service.services.clock.now() - timedelta(hours=hours)
            spendings.put(
                connection,
                task_id=uuid.uuid4().hex,
                key="1",
                project_id=PROJECT,
                workflow_id=self.workflow_id,
                tokens=tokens,
                cost=None,
                settled=True,
                now=moment,
            )

        await self.service.write(put)


async def test_the_checks_of_a_task_are_made_in_their_order(service):
    document = workflow("order", task_action(), repository="acme/order")
    flow, other = [await service.create({**document, "name": name}) for name in ("order", "another")]
    order = Order(service, flow.id, [Unfit("MCP server(s) not shared with the project or disabled: [9]")])
    await service.write(lambda connection: connection.execute(_forget_owner(flow.id)))
    await used(service, flow.id, 2, service.services.clock.now() - timedelta(hours=1))
    await used(service, flow.id, 1, service.services.clock.now() - timedelta(hours=1), status="running")
    await order.use(10, hours=2)

    # 1. A key of another workflow, before anything else; 2. connectors; 3. the owner.
    foreign = await Order(service, other.id, []).create(key=f"foreign:{order.key}", parallel=100)
    refused = await order.create(key=f"foreign:{order.key}")
    assert foreign.workflow_id == other.id
    assert (refused.quota, refused.reason) == ("key", "Idempotency key is already used by another workflow.")
    assert await order.create() == order.lacking[0]
    order.lacking.clear()
    assert await order.create() == NotAllowed()
    await service.write(
        lambda connection: connection.execute(
            workflows.update().where(workflows.c.id == flow.id).values(enabled_by="test")
        )
    )
    # 4. The day of the workflow; 5. that of the project; 6. what was spent; 7. how many are under way; 8. created.
    assert (await order.create()).quota == "workflow"
    order.limits = Limits(QuotaLimits(workflow=100, project=1), order.limits.spending)
    assert (await order.create()).quota == "project"
    order.limits = Limits(QuotaLimits(), order.limits.spending)
    spent = await order.create()
    assert spent.quota == "workflow_spending"
    frees = spent.frees_at - service.services.clock.now()
    assert timedelta(hours=21, minutes=59) < frees <= timedelta(hours=22)
    assert spent.reason.startswith("This workflow reached its daily budget of 10 tokens (trailing 24 hours).")
    assert f"Room frees at {spent.frees_at + timedelta(seconds=1):%Y-%m-%d %H:%M}" in spent.reason
    order.limits = Limits(QuotaLimits(), Allowances(workflow=Allowance(tokens=11)))
    assert (await order.create(parallel=1)).quota == "parallel"
    made = await order.create(parallel=2)
    assert made.status == "queued"
    # Whoever asked before is answered whatever would refuse by now.
    order.lacking.append(Unfit("gone"))
    await service.write(lambda connection: connection.execute(_forget_owner(flow.id)))
    assert (await order.create(parallel=1)).id == made.id


async def test_a_project_may_have_quotas_of_its_own(service):
    flow = await service.create(workflow("own", task_action(), repository="acme/own"))
    await used(service, flow.id, 3, service.services.clock.now() - timedelta(hours=1))
    await service.write(lambda connection: projects.set_quotas(connection, PROJECT, {"workflow_tasks": 3}))
    try:
        refused = await Order(service, flow.id, []).create()
    finally:
        await service.write(lambda connection: projects.set_quotas(connection, PROJECT, {}))
    assert "daily limit of 3 tasks" in refused.reason


async def test_a_token_that_is_revoked_owns_nothing_any_more(service):  # D46
    token = uuid.uuid4().hex
    now = service.services.clock.now()
    made = {"token_id": token, "project_id": PROJECT, "name": "ada", "role": "editor", "digest": token, "now": now}
    await service.write(lambda connection: connections.insert_token(connection, **made))
    document = workflow("owned", task_action(), repository="acme/owned")
    flow = (await service.services.workflows.create(PROJECT, document, token)).row
    order = Order(service, flow.id, [])
    assert not isinstance(await order.create(), NotAllowed)
    await service.write(lambda connection: connections.revoke_token(connection, PROJECT, token, now))
    assert await order.create(key=f"{order.key}:2") == NotAllowed()
    run_id = await service.started(flow.id, issue("acme/owned"))
    assert "Workflow has no owner who can run tasks." in (await service.until(run_id, "failed"))["reason"]


async def test_a_request_that_the_day_has_no_room_for_ends_the_task_with_that_reason(service):
    flow = await service.create(workflow("poor", task_action(), repository="acme/poor"))
    await service.write(lambda connection: projects.set_quotas(connection, PROJECT, {"workflow_tokens": 100}))
    try:
        run_id = await service.started(flow.id, issue("acme/poor"))
        row = await service.until(run_id, "failed")
    finally:
        await service.write(lambda connection: projects.set_quotas(connection, PROJECT, {}))
    (step,) = await service.steps(run_id)
    assert (step["error"]["code"], step["result"]["ending"]) == ("task.budget", "budget")
    assert "the workflow's last 24 hours to" in row["reason"]
    assert "100 at most" in row["reason"]
    spent = await service.read(
        lambda connection: spendings.since(
            connection, "workflow_id", flow.id, service.services.clock.now() - timedelta(hours=24)
        )
    )
    assert spent.tokens == 0
