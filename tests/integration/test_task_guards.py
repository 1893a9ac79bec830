"""Each guard of an agent, from the delivery to the message, on both databases."""

from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
import pytest_asyncio

from loops.agent.models.scripted import ScriptedTurn
from loops.agent.transcript import Usage
from tests.integration.guarded import FORCED_REPORT, LIMITS, TRAPS, by_prompt, guard_words, outbox_of, telling
from tests.integration.running import Running, issue, running
from tests.integration.tasking import calls, ends, rounds_of, scripted, task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUARDS = [name for name in TRAPS if name != "clock"]
OTHERS: Mapping[str, tuple[Sequence[ScriptedTurn], ScriptedTurn]] = {
    "spent": ([calls("event_read", {}, "That was all.", usage=Usage(58_000, 1_000))], ends("Never asked for.")),
    "half": ([ScriptedTurn("Hm.")] * 3, ends("A report.", output={"area": "export", "count": "many"})),
    "broken": ([ScriptedTurn("All is done, a success!", finish="error")], ends()),
    "withheld": ([ScriptedTurn("All is done, a success!", finish="filtered")], ends()),
    "silent": ([ends(""), calls("finalize", {"outcome": "noop"}), ends("<!-- done -->\u200b")], ends()),
    "noop": ([calls("finalize", {"outcome": "noop", "reason": "It is closed already."})], ends()),
}


def words_of(name: str) -> tuple[Sequence[ScriptedTurn], ScriptedTurn]:
    return OTHERS[name] if name in OTHERS else guard_words(name)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("guards")
    async with running(folder, module_database_url, wiring=scripted(by_prompt(words_of)), **LIMITS) as started:
        yield started


@pytest.mark.parametrize("guard", GUARDS)
async def test_ag_01_ag_10_a_guard_fails_the_run_and_its_partial_result_is_told_once(service, guard):
    trap = TRAPS[guard]
    flow = await service.create(telling(f"failing-{guard}"))
    run_id = await service.started(flow.id, issue(f"acme/failing-{guard}"))

    row = await service.until(run_id, "failed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending, task.rounds) == ("incomplete", trap.ending, len(trap.turns) + 1)
    assert task.reason == f"{trap.reason}; the agent did not finalize"
    assert row["reason"] == f"task: The task is incomplete: {trap.ending}: {task.reason}"
    (step,) = await service.steps(run_id)
    assert (step["step_id"], step["status"], step["error"]["code"]) == ("task", "failed", f"task.{trap.ending}")
    told = f"This task is incomplete: {task.reason}.\n\n{trap.last_words}"
    assert (step["result"]["status"], step["result"]["ending"]) == ("incomplete", trap.ending)
    assert step["result"]["final_message"] == told
    (message,) = await outbox_of(service, run_id)
    marked = f"Incomplete: the task did not end by itself.\n\n{told}"
    assert (message.step_id, message.status, message.message["text"]) == ("tell", "shown", marked)
    rounds = await rounds_of(service, task.id)
    assert [one["guard"] for one in rounds] == [*[None] * len(trap.turns), trap.ending]


@pytest.mark.parametrize("guard", GUARDS)
async def test_an_agent_that_finalizes_when_it_is_made_to_has_a_result(service, guard):
    trap = TRAPS[guard]
    flow = await service.create(telling(f"forced-{guard}"))
    run_id = await service.started(flow.id, issue(f"acme/forced-{guard}"))

    await service.until(run_id, "completed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending) == ("completed", "done")
    assert task.reason == f"the agent finalized, since {trap.reason}"
    steps = {step["step_id"]: step for step in await service.steps(run_id)}
    assert steps["task"]["result"]["final_message"] == FORCED_REPORT
    assert steps["after"]["status"] == "completed"
    (message,) = await outbox_of(service, run_id)
    assert (message.step_id, message.message["text"]) == ("tell", FORCED_REPORT)


async def test_a_budget_without_room_for_a_last_request_ends_the_task_with_what_it_said(service):
    flow = await service.create(telling("spent"))
    run_id = await service.started(flow.id, issue("acme/spent"))

    await service.until(run_id, "failed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending, task.rounds) == ("incomplete", "budget", 1)
    assert "60000 at most" in task.reason
    (message,) = await outbox_of(service, run_id)
    assert message.message["text"].endswith("\n\nThat was all.")


async def test_ag_10_of_a_result_that_is_not_accepted_what_is_valid_is_kept(service):
    outputs = [{"key": name, "result_path": f"output.{name}"} for name in ("area", "count")]
    variables = [{"key": "area", "type": "string", "default": ""}, {"key": "count", "type": "number", "default": ""}]
    document = telling("half", output_variable=outputs)
    flow = await service.create({**document, "variables": variables})
    run_id = await service.started(flow.id, issue("acme/half"))

    await service.until(run_id, "failed")

    (step,) = await service.steps(run_id)
    assert step["result"]["output"] == {"area": "export"}
    assert step["result"]["final_message"].endswith("\n\nA report.")
    assert step["result"]["ending"] == "no_tool"


async def test_a_step_that_may_fail_goes_on_and_its_message_is_sent_by_the_way_alone(service):
    flow = await service.create(telling("failing-idle", on_error="continue"))
    run_id = await service.started(flow.id, issue("acme/failing-idle"))

    await service.until(run_id, "completed")

    assert (await task_of(service, run_id)).status == "incomplete"
    (message,) = await outbox_of(service, run_id)
    assert "Three." in message.message["text"]


@pytest.mark.parametrize(("name", "words"), [("broken", "ended the answer with an error"), ("withheld", "withheld")])
async def test_ag_02_an_answer_that_ends_in_an_error_is_no_success_however_it_reads(service, name, words):
    flow = await service.create(telling(name))
    run_id = await service.started(flow.id, issue(f"acme/{name}"))

    row = await service.until(run_id, "failed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending) == ("failed", "provider_error")
    assert words in row["reason"]
    (step,) = await service.steps(run_id)
    assert (step["status"], step["result"]["status"]) == ("failed", "failed")
    (told,) = await outbox_of(service, run_id)
    assert (told.step_id, told.key) == (None, f"{run_id}:alert")


async def test_ag_11_an_end_that_says_nothing_is_none_and_noop_needs_a_reason(service):
    flow = await service.create(telling("silent"))
    run_id = await service.started(flow.id, issue("acme/silent"))

    row = await service.until(run_id, "failed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending) == ("failed", "invalid_output")
    assert "it finished without a report" in row["reason"]
    codes = [result["code"] for one in await rounds_of(service, task.id) for result in one["results"]]
    assert codes == ["FINALIZE_EMPTY", "FINALIZE_NO_REASON", "FINALIZE_EMPTY"]
    assert [row.key for row in await outbox_of(service, run_id)] == [f"{run_id}:alert"]


async def test_ag_11_nothing_to_do_with_a_reason_is_a_result_that_tells_it(service):
    flow = await service.create(telling("noop"))
    run_id = await service.started(flow.id, issue("acme/noop"))

    await service.until(run_id, "completed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending, task.reason) == ("completed", "noop", "It is closed already.")
    (message,) = await outbox_of(service, run_id)
    assert message.message["text"] == "It is closed already."
