"""Cancelling a run whose task is at work, on both databases: over within seconds, and nothing is sent afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio

from loops.agent.models.scripted import ScriptedTurn
from loops.errors import Conflict
from tests.integration.guarded import by_prompt, outbox_of, telling
from tests.integration.running import Running, eventually, issue, running
from tests.integration.tasking import calls, ends, rounds_of, scripted, task_of
from tests.unit.agent.working import NotingTool

pytestmark = pytest.mark.asyncio(loop_scope="module")

READS = NotingTool("slow_read", pause=60)
WRITES = NotingTool("slow_write", effect="write", pause=60)
WORDS: Mapping[str, Sequence[ScriptedTurn]] = {
    "asking": [ScriptedTurn("Never said.", pause=60)],
    "reading": [ScriptedTurn("I look.", (*calls("slow_read").calls, *calls("slow_write").calls)), ends()],
    "writing": [calls("slow_write", {}, "I write."), ends()],
    "holding": [ScriptedTurn("Never said.", pause=60)],
    "off": [ScriptedTurn("Never said.", pause=60)],
    "done": [ends()],
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    wiring = replace(scripted(by_prompt(lambda name: (WORDS[name], ends()))), tools=(READS, WRITES))
    folder = tmp_path_factory.mktemp("cancel")
    async with running(folder, module_database_url, wiring=wiring, tasks="1") as started:
        yield started


async def is_calling(service: Running, run_id: str, tool: NotingTool, before: int) -> None:
    await eventually(lambda: task_of(service, run_id), lambda task: task.status == "running")
    await eventually(lambda: asyncio.sleep(0, len(tool.keys)), lambda count: count > before)


async def cancelled(service: Running, run_id: str) -> None:
    """Cancel the run: it is over in time, only when its task is, and nothing is sent."""
    began = time.monotonic()
    async with asyncio.timeout(5):
        status = await service.services.runs.cancel("default", run_id)
    assert time.monotonic() - began < 5
    task, row = await task_of(service, run_id), await service.run(run_id)
    assert (status, row["status"], task.status, task.ending) == ("cancelled", "cancelled", "cancelled", "cancelled")
    assert task.finished_at is not None
    # A task that nobody had begun ends in the transaction that ends its run.
    assert task.started_at is None or row["finished_at"] >= task.finished_at
    assert task.result is not None
    assert task.result["final_message"] == ""
    rounds = len(await rounds_of(service, task.id))
    await asyncio.sleep(0.5)
    assert await outbox_of(service, run_id) == []
    assert {step["step_id"] for step in await service.steps(run_id)} == {"task"}
    assert len(await rounds_of(service, task.id)) == rounds


async def test_ag_12_a_cancel_stops_the_request_to_the_model(service):
    flow = await service.create(telling("asking"))
    run_id = await service.started(flow.id, issue("acme/asking"))
    await eventually(lambda: task_of(service, run_id), lambda task: task.status == "running")

    await cancelled(service, run_id)

    (only,) = await rounds_of(service, (await task_of(service, run_id)).id)
    assert only["reply"]["finish"] == "cancelled"


async def test_a_workflow_that_is_disabled_stops_the_tasks_of_its_runs(service):
    flow = await service.create(telling("off"))
    acts = await service.started(flow.id, issue("acme/off"))
    await eventually(lambda: task_of(service, acts), lambda task: task.status == "running")
    waits = await service.started(flow.id, issue("acme/off"))  # for the one task that may run at once
    await service.until(waits, "waiting")

    retired = await service.services.workflows.disable("default", flow.id, running="cancel")

    assert (retired.row.status, retired.cancelled, retired.stopping) == ("draft", 2, ())
    for run_id in (acts, waits):
        task = await task_of(service, run_id)
        assert ((await service.run(run_id))["status"], task.status) == ("cancelled", "cancelled")


@pytest.mark.parametrize(("name", "tool"), [("reading", READS), ("writing", WRITES)])
async def test_ag_12_a_cancel_stops_a_tool_and_what_would_have_followed_it(service, name, tool):
    before, tool.cancelled = len(tool.keys), False
    flow = await service.create(telling(name))
    run_id = await service.started(flow.id, issue(f"acme/{name}"))
    await is_calling(service, run_id, tool, before)

    await cancelled(service, run_id)

    assert tool.cancelled
    (only,) = await rounds_of(service, (await task_of(service, run_id)).id)
    codes = [result["code"] for result in only["results"]]
    assert codes == (["CANCELLED", "NOT_RUN"] if name == "reading" else ["CANCELLED"])
    assert ("may have taken effect" in only["results"][0]["text"]) == (name == "writing")


async def test_ag_12_a_task_that_waits_for_its_turn_is_over_without_having_begun(service):
    flow = await service.create(telling("holding"))
    first = await service.started(flow.id, issue("acme/holding", 1))
    await eventually(lambda: task_of(service, first), lambda task: task.status == "running")
    second = await service.started(flow.id, issue("acme/holding", 2))
    await eventually(lambda: service.run(second), lambda run: run["status"] == "waiting")
    assert (await task_of(service, second)).status == "queued"

    await cancelled(service, second)

    assert await rounds_of(service, (await task_of(service, second)).id) == []
    assert (await task_of(service, first)).status == "running"
    await cancelled(service, first)


async def test_a_run_that_is_over_cannot_be_cancelled_and_its_message_stays(service):
    flow = await service.create(telling("done"))
    run_id = await service.started(flow.id, issue("acme/done"))
    await service.until(run_id, "completed")

    with pytest.raises(Conflict, match="completed"):
        await service.services.runs.cancel("default", run_id)

    assert len(await outbox_of(service, run_id)) == 1
