"""What can go wrong beside a task: nothing of it loses a result, what was spent, or the end of a run."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.agent.models.scripted import ScriptedTurn
from loops.agent.transcript import Usage
from loops.ports import Origin, Posted
from loops.store import notes as note_store
from loops.store import outbox
from loops.store.task_tables import notes
from notify.posting import OutboxMessages
from tests.integration.running import PROJECT, Running, issue, log_action, running, workflow
from tests.integration.tasking import calls, ends, request_of, scripted, task_action, task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Scripts:
    def __init__(self) -> None:
        self.turns: list[Any] = []

    def make(self) -> list[Any]:
        return list(self.turns)


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, scripts: Scripts, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("faults")
    async with running(folder, module_database_url, wiring=scripted(scripts.make), price="3/15") as started:
        yield started


def tells(text: str) -> dict[str, Any]:
    inputs: Mapping[str, Any] = {
        "slack_workspace": {"value": "999"},
        "channel": {"value": "C1"},
        "text": {"value": text},
    }
    config = {"template_id": "template-slack", "inputs": inputs}
    return {"id": "tell", "name": "tell", "type": "function", "config": config}


async def messages_of(service: Running, run_id: str) -> list[outbox.OutboxRow]:
    return await service.read(lambda connection: outbox.listed(connection, PROJECT, run_id=run_id))


def broken(_messages: object, _tools: object) -> ScriptedTurn:
    raise AttributeError("the library stumbled\nover <asyncio.Lock object at 0x7f0000>")


async def test_a_fault_of_ours_in_the_middle_keeps_what_was_said_and_spent(service, scripts):
    scripts.turns = [calls("event_read", {}, "I have read it."), broken]
    flow = await service.create(workflow("stumbles", task_action(), repository="acme/stumbles"))
    run_id = await service.started(flow.id, issue("acme/stumbles"))

    row = await service.until(run_id, "failed")

    task = await task_of(service, run_id)
    assert (task.status, task.ending, task.rounds) == ("failed", "internal_error", 1)
    assert task.input_tokens > 0
    assert row["cost"] == pytest.approx(task.cost)
    assert task.reason.endswith("AttributeError: the library stumbled over …")
    (step,) = await service.steps(run_id)
    assert "the log of the service has it" in step["error"]["hint"]
    assert "I have read it." in str((task.result or {})["final_message"])


async def test_a_message_that_cannot_be_made_fails_its_step_and_not_the_worker(service, scripts, monkeypatch):
    def fails(*_given: object, **_more: object) -> Posted:
        raise UnicodeError("no such charset")

    monkeypatch.setattr(OutboxMessages, "put", fails)
    flow = await service.create(workflow("odd", tells("x"), repository="acme/odd"))
    run_id = await service.started(flow.id, issue("acme/odd"))

    row = await service.until(run_id, "failed")

    assert "no such charset" in row["reason"]
    assert (await service.row(run_id))["restarts"] == 0


@pytest.mark.parametrize("breaks", ["python", "database"])
async def test_a_partial_result_that_cannot_be_told_does_not_undo_the_end_of_its_run(
    service, scripts, monkeypatch, breaks
):
    def fails(_self: object, connection: sa.Connection, *_given: object, **_more: object) -> Posted:
        if breaks == "database":
            connection.execute(sa.text("INSERT INTO loops_epochs (name, value) VALUES ('definitions', 1)"))
        raise ValueError("not today")

    monkeypatch.setattr(OutboxMessages, "put", fails)
    scripts.turns = [ScriptedTurn("Thinking.")] * 4
    flow = await service.create(workflow(f"mute-{breaks}", task_action(), tells("x"), repository=f"acme/mute-{breaks}"))
    run_id = await service.started(flow.id, issue(f"acme/mute-{breaks}"))

    row = await service.until(run_id, "failed")

    assert "no_tool" in row["reason"]
    (step,) = await service.steps(run_id)
    assert step["error"]["code"] == "task.no_tool"


async def test_a_partial_result_is_marked_whatever_the_message_says(service, scripts):
    scripts.turns = [ScriptedTurn("Thinking.")] * 4
    says = tells("Release checked and approved.")
    flow = await service.create(workflow("approves", task_action(), says, repository="acme/approves"))
    run_id = await service.started(flow.id, issue("acme/approves"))

    await service.until(run_id, "failed")

    (message,) = await messages_of(service, run_id)
    assert message.message["text"].startswith("Incomplete: the task did not end by itself.\n\nRelease checked")


async def test_a_report_whose_fields_do_not_fit_the_variables_is_still_told(service, scripts):
    fields = {f"f{number}": "x" * 900 for number in range(8)}
    outputs = [{"key": name, "result_path": f"output.{name}"} for name in fields]
    variables = [{"key": name, "type": "string", "default": ""} for name in fields]
    scripts.turns = [ends("All is known.", output=fields)]
    step = task_action(output_variable=outputs)
    says = tells("{steps.task.final_message}")
    flow = await service.create(workflow("wide", step, says, repository="acme/wide", variables=variables))
    run_id = await service.started(flow.id, issue("acme/wide"))

    row = await service.until(run_id, "failed")

    assert "over the limit" in row["reason"]
    (message,) = await messages_of(service, run_id)
    assert "All is known." in message.message["text"]


async def test_an_output_that_later_steps_could_not_read_whole_is_sent_back_to_the_model(service, scripts):
    scripts.turns = [ends(output={"big": "x" * 9_000}), ends(output={"big": "small"})]
    step = task_action(output_variable=[{"key": "big", "result_path": "output.big"}])
    variables = [{"key": "big", "type": "string", "default": ""}]
    shows = log_action("show", "{variables.big}")
    flow = await service.create(workflow("big", step, shows, repository="acme/big", variables=variables))
    run_id = await service.started(flow.id, issue("acme/big"))

    await service.until(run_id, "completed")

    assert (await service.steps(run_id))[1]["result"] == {"text": "small"}


async def test_notes_on_one_subject_are_bounded_in_number_and_in_what_the_next_task_is_shown(service, scripts):
    flow = await service.create(workflow("many", task_action(), repository="acme/many"))
    text = "n" * 16_000
    many = [ScriptedTurn("", tuple(calls("note_open", {"text": text}).calls[0] for _ in range(32))) for _ in range(3)]
    scripts.turns = [*many, ends()]
    first = await service.started(flow.id, issue("acme/many", 3))
    await service.until(first, "completed")
    count = sa.select(sa.func.count()).select_from(notes).where(notes.c.workflow_id == flow.id)
    kept = await service.read(lambda connection: connection.execute(count).scalar_one())
    assert kept == note_store.MOST_OPEN

    scripts.turns = [ends()]
    second = await service.started(flow.id, issue("acme/many", 3))
    await service.until(second, "completed")

    opening = (await request_of(service, (await task_of(service, second)).id))["opening"]
    assert len(opening) < 60_000
    assert "older ones are not shown" in opening


async def test_odd_counts_and_texts_of_a_model_are_stored_as_what_they_can_be(service, scripts):
    odd = Usage(-5, 2**40, 7, 0)
    scripts.turns = [
        calls("event_read", {}, "NUL \0 and \ud800.", usage=odd, thought="\0"),
        calls("finalize", json.dumps({"final_message": "Read."})),
    ]
    flow = await service.create(workflow("odd counts", task_action(), repository="acme/counts"))
    run_id = await service.started(flow.id, issue("acme/counts"))

    await service.until(run_id, "completed")

    task = await task_of(service, run_id)
    assert task.input_tokens >= 0
    assert task.output_tokens > 10**9 - 1


async def test_a_message_with_a_notice_carries_it_in_each_of_its_forms(service):
    mail = {"from": {}, "to": {"email": "ada@example.org"}, "subject": "News", "text": "plain", "html": "<p>rich</p>"}
    origin = Origin(PROJECT, "run", "tell", f"notice:{service.service.url}")
    posted = await service.write(
        lambda connection: service.services.messages.put(
            connection, "email", {"email": mail}, origin, notice="Incomplete: a < b"
        )
    )
    row = await service.read(lambda connection: outbox.get(connection, posted.id))
    assert row.message["text"] == "Incomplete: a < b\n\nplain"
    assert row.message["html"].startswith("<p><strong>Incomplete: a &lt; b</strong></p>")
    assert row.message["subject"] == "[incomplete] News"
