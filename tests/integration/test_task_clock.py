"""The wall clock of an agent in a whole service: it acts inside a request, and leaves time for a report."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.guarded import FORCED_REPORT, TRAPS, by_prompt, outbox_of, telling
from tests.integration.running import Running, issue, running
from tests.integration.tasking import rounds_of, scripted, task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("clock")
    async with running(folder, module_database_url, wiring=scripted(by_prompt()), task_seconds="10") as started:
        yield started


async def test_ag_16_the_wall_clock_cuts_a_request_and_the_agent_reports_or_its_last_text_is_told(service):
    runs = {}
    for name in ("failing-clock", "forced-clock"):
        flow = await service.create(telling(name))
        runs[name] = await service.started(flow.id, issue(f"acme/{name}"))

    row = await service.until(runs["failing-clock"], "failed")
    await service.until(runs["forced-clock"], "completed")

    trap = TRAPS["clock"]
    failed, forced = [await task_of(service, run_id) for run_id in runs.values()]
    assert (failed.status, failed.ending) == ("incomplete", "timeout")
    assert trap.reason in row["reason"]
    assert (forced.status, forced.reason) == ("completed", f"the agent finalized, since {trap.reason}")
    for task in (failed, forced):
        finishes = [one["reply"]["finish"] for one in await rounds_of(service, task.id)]
        assert finishes[:2] == ["tool_calls", "expired"]
    (partial,) = await outbox_of(service, runs["failing-clock"])
    told = f"This task is incomplete: {failed.reason}.\n\n{trap.last_words}"
    assert partial.message["text"] == f"Incomplete: the task did not end by itself.\n\n{told}"
    (whole,) = await outbox_of(service, runs["forced-clock"])
    assert whole.message["text"] == FORCED_REPORT
