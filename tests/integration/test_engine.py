"""Runs on the durable engine, one slot for all of them, on SQLite and on Postgres."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import Conflict, NotFound, RunFenced
from loops.runs.state import Finish, Park, RunState
from loops.store import outbox
from loops.store import runs as store
from loops.store.runs import StepRow
from loops.store.tables import revisions, run_steps
from server.app import Wiring
from tests.contract.databases import terminate
from tests.integration.running import (
    PROJECT,
    Running,
    Told,
    delay_action,
    eventually,
    issue,
    log_action,
    running,
    workflow,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, told: Told, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """A service that works on one segment at a time."""
    wiring = Wiring(steps=told.among)
    async with running(tmp_path_factory.mktemp("service"), module_database_url, wiring=wiring, runs="1") as started:
        yield started


async def waiting(service: Running, *steps, name: str = "waits") -> str:
    """The id of a run that has come to wait."""
    flow = await service.create(workflow(name, *steps, repository=f"acme/{name.replace(' ', '-')}"))
    run_id = await service.started(flow.id, issue(f"acme/{name.replace(' ', '-')}"))
    await service.until(run_id, "waiting")
    return run_id


async def texts(service: Running, run_id: str) -> dict[str, list[str]]:
    return {row["step_id"]: [line["text"] for line in row["log"] or []] for row in await service.steps(run_id)}


async def test_a_run_takes_each_step_once_and_in_order(service):
    flow = await service.create(
        workflow(
            "in order",
            log_action("first", "hello {event.properties.title}"),
            delay_action("pause", "1s"),
            log_action("second", "said {steps.first.text}"),
            repository="acme/order",
        )
    )
    run_id = await service.started(flow.id, issue("acme/order", 7))
    run = await service.until(run_id, "completed", "failed")
    assert (run["status"], run["reason"], run["version"]) == ("completed", "done", 1)
    steps = await service.steps(run_id)
    assert [(row["step_id"], row["status"], row["position"]) for row in steps] == [
        ("first", "completed", 0),
        ("pause", "completed", 1),
        ("second", "completed", 2),
        ("exit", "completed", 3),
    ]
    assert [row["seq"] for row in steps] == [0, 1, 1, 1]
    assert await texts(service, run_id) == {
        "first": ["hello Issue 7"],
        "pause": ["waiting 1s", "the time is over"],
        "second": ["said hello Issue 7"],
        "exit": [],
    }
    row = await service.row(run_id)
    assert (row["wait"], row["owner"], row["deadline_at"]) == (None, None, None)
    assert row["created_at"] <= row["started_at"] <= row["finished_at"]


async def test_a_run_that_waits_holds_no_slot(service):
    parked = [await waiting(service, delay_action("pause", "1h"), name=f"parked {number}") for number in range(3)]
    flow = await service.create(workflow("beside", log_action("a", "x"), repository="acme/beside"))
    run_id = await service.started(flow.id, issue("acme/beside"))
    assert (await service.until(run_id, "completed", "failed"))["status"] == "completed"
    for one in parked:
        assert (await service.run(one))["status"] == "waiting"
        assert await service.services.runs.cancel(PROJECT, one) == "cancelled"


async def test_a_waiting_run_that_is_resumed_goes_on_at_once(service):
    run_id = await waiting(service, delay_action("pause", "1h"), log_action("after", "x"), name="early")
    await service.services.runs.resume(PROJECT, run_id, {"by": "ada"})
    await service.until(run_id, "completed")
    results = {row["step_id"]: row["result"] for row in await service.steps(run_id)}
    assert results["pause"]["resumed_early"] is True
    assert (await texts(service, run_id))["pause"] == ["waiting 1h", "resumed before its time"]


async def test_what_a_run_is_resumed_with_is_what_its_step_comes_to(service):
    run_id = await waiting(
        service, log_action("ask", "!park"), log_action("after", "{steps.ask.answer}"), name="answered"
    )
    await service.services.runs.resume(PROJECT, run_id, {"answer": "yes"})
    await service.until(run_id, "completed")
    assert (await texts(service, run_id)) == {"ask": ["woken"], "after": ["yes"], "exit": []}


async def test_a_step_may_wait_again_when_it_is_resumed(service):
    run_id = await waiting(service, log_action("ask", "!park twice"), name="twice")
    await service.services.runs.resume(PROJECT, run_id, {"answer": 1})
    await eventually(lambda: service.row(run_id), lambda row: row["seq"] == 2 and row["status"] == "waiting")
    await service.services.runs.resume(PROJECT, run_id, {"answer": 2})
    await service.until(run_id, "completed")
    row = (await service.steps(run_id))[0]
    assert (row["status"], row["result"]) == ("completed", {"answer": 2})
    assert [line["text"] for line in row["log"]] == ["woken", "woken"]


async def test_of_two_who_resume_a_run_at_once_one_is_told_that_he_came_second(service, told):
    run_id = await waiting(service, delay_action("pause", "1h"), log_action("after", "x"), name="both")
    resume = service.services.runs.resume
    came = await asyncio.gather(*(resume(PROJECT, run_id, {"who": n}) for n in range(2)), return_exceptions=True)
    assert [type(one) for one in came if one is not None] == [Conflict]
    assert came.count(None) == 1
    await service.until(run_id, "completed")
    assert told.began.count(f"{run_id}:after") == 1
    with pytest.raises(Conflict, match="completed"):
        await resume(PROJECT, run_id, {})


async def test_only_a_run_of_the_project_can_be_resumed_or_cancelled(service):
    run_id = await waiting(service, delay_action("pause", "1h"), name="mine")
    for project, wanted in (("elsewhere", run_id), (PROJECT, "no-such-run")):
        with pytest.raises(NotFound):
            await service.services.runs.resume(project, wanted, {})
        with pytest.raises(NotFound):
            await service.services.runs.cancel(project, wanted)
    assert (await service.run(run_id))["status"] == "waiting"
    await service.services.runs.cancel(PROJECT, run_id)


async def test_a_waiting_run_is_cancelled_at_once_and_never_goes_on(service):
    run_id = await waiting(service, delay_action("pause", "2s"), log_action("after", "x"), name="no more")
    assert await service.services.runs.cancel(PROJECT, run_id) == "cancelled"
    run = await service.run(run_id)
    assert (run["status"], run["reason"]) == ("cancelled", "cancelled on request")
    assert run["finished_at"] is not None
    with pytest.raises(Conflict):
        await service.services.runs.resume(PROJECT, run_id, {})
    with pytest.raises(Conflict):
        await service.services.runs.cancel(PROJECT, run_id)
    await asyncio.sleep(3)  # its time comes
    assert [(row["step_id"], row["status"]) for row in await service.steps(run_id)] == [("pause", "cancelled")]


async def test_a_running_run_is_cancelled_once_its_step_has_ended(service, told):
    flow = await service.create(
        workflow("stops", log_action("long", "!sleep 60"), log_action("after", "x"), repository="acme/stops")
    )
    run_id = await service.started(flow.id, issue("acme/stops"))
    await eventually(lambda: service.run(run_id), lambda row: row["status"] == "running")
    await eventually(_true, lambda _: f"{run_id}:long" in told.began)
    assert await service.services.runs.cancel(PROJECT, run_id) == "cancelled"
    assert [one for one in told.slept if one.startswith(run_id)] == [f"{run_id}:long cancelled"]
    assert [(row["step_id"], row["status"]) for row in await service.steps(run_id)] == [("long", "cancelled")]
    assert (await service.run(run_id))["reason"] == "cancelled on request"


async def _true() -> bool:
    return True


async def test_a_queued_run_is_cancelled_without_ever_beginning(service, told):
    busy = await service.create(workflow("busy", log_action("long", "!sleep 60"), repository="acme/busy"))
    first = await service.started(busy.id, issue("acme/busy"))
    await service.until(first, "running")
    second = await service.started(busy.id, issue("acme/busy"))
    assert (await service.run(second))["status"] == "queued"
    assert await service.services.runs.cancel(PROJECT, second) == "cancelled"
    assert await service.services.runs.cancel(PROJECT, first) == "cancelled"
    assert await service.steps(second) == []
    assert f"{second}:long" not in told.began


async def until_logged(caplog, message, run_id):
    """The line about a run, which may come a moment after the row has changed."""
    async with asyncio.timeout(10):
        while True:
            for record in caplog.records:
                if record.message == message and vars(record).get("run_id") == run_id:
                    return record
            await asyncio.sleep(0.02)


async def test_a_step_that_raises_fails_its_run_and_keeps_the_traceback_to_the_log(service, caplog):
    flow = await service.create(
        workflow("raises", log_action("bad", "!raise here"), log_action("after", "x"), repository="acme/raises")
    )
    with caplog.at_level(logging.WARNING, "loops.runs"):
        run_id = await service.started(flow.id, issue("acme/raises"))
        run = await service.until(run_id, "failed")
        over = await until_logged(caplog, "run is over", run_id)
    assert (over.levelname, vars(over)["reason"]) == ("WARNING", run["reason"])
    assert run["reason"] == "bad: internal error: RuntimeError: this went wrong: here"
    (row,) = await service.steps(run_id)
    assert row["status"] == "failed"
    assert row["error"] == {
        "code": "step.internal",
        "message": "internal error: RuntimeError: this went wrong: here",
        "hint": "",
    }
    logged = [record for record in caplog.records if record.message == "step raised"]
    assert len(logged) == 1
    assert logged[0].exc_info is not None
    assert "Traceback" not in str(row)


async def test_a_step_that_continues_on_error_leaves_its_error_and_goes_on(service):
    flow = await service.create(
        workflow(
            "goes on",
            log_action("bad", "!raise here", on_error="continue"),
            log_action("after", "x"),
            repository="acme/goes-on",
        )
    )
    run_id = await service.started(flow.id, issue("acme/goes-on"))
    await service.until(run_id, "completed")
    assert [(row["step_id"], row["status"]) for row in await service.steps(run_id)] == [
        ("bad", "failed"),
        ("after", "completed"),
        ("exit", "completed"),
    ]


async def test_without_a_slack_connection_the_message_is_shown_on_the_page_and_the_run_goes_on(service):
    slack = {
        "template_id": "template-slack",
        "inputs": {"slack_workspace": {"value": 1}, "channel": {"value": "C1"}, "text": {"value": "hello"}},
    }
    action = {"id": "tell", "name": "Tell", "type": "function", "config": slack}
    flow = await service.create(workflow("tells", action, repository="acme/tells"))
    run_id = await service.started(flow.id, issue("acme/tells"))
    await service.until(run_id, "completed")
    row, _exit = await service.steps(run_id)
    (message,) = await service.read(lambda connection: outbox.listed(connection, "default", run_id=run_id))
    assert (row["result"]["status"], message.status) == ("shown", "shown")
    assert message.reason == "this project has no Slack connection"


async def test_variables_that_do_not_fit_fail_the_step_that_would_set_them(service):
    output = {"output_variable": {"key": "all", "result_path": None, "spread": False}}
    flow = await service.create(
        workflow(
            "too much",
            log_action("big", "!return " + '"' + "x" * 6000 + '"', **output),
            log_action("after", "x"),
            variables=[{"key": "all", "type": "string"}],
            repository="acme/too-much",
        )
    )
    run_id = await service.started(flow.id, issue("acme/too-much"))
    run = await service.until(run_id, "failed")
    assert run["state"]["variables"] == {"all": ""}
    (row,) = await service.steps(run_id)
    assert (row["status"], row["error"]["code"]) == ("failed", "variables.too_large")


async def test_a_result_that_no_database_can_store_is_stored_mended(service):
    flow = await service.create(
        workflow("mended", log_action("nul", r'!return ["a\u0000b", "\ud800"]'), repository="acme/mended")
    )
    run_id = await service.started(flow.id, issue("acme/mended"))
    assert (await service.until(run_id, "completed", "failed"))["status"] == "completed"
    assert (await service.steps(run_id))[0]["result"] == ["a\ufffdb", "\ufffd"]


async def test_a_run_keeps_the_revision_that_it_began_with(service):
    def version(text: str) -> dict:
        return workflow("edited", delay_action("pause", "1h"), log_action("after", text), repository="acme/edited")

    flow = await service.create(version("old"))
    before = await service.started(flow.id, issue("acme/edited"))
    await service.until(before, "waiting")
    await service.services.workflows.update(PROJECT, flow.id, version("new"), "test")
    after = await service.started(flow.id, issue("acme/edited"))
    await service.until(after, "waiting")
    for run_id in (before, after):
        await service.services.runs.resume(PROJECT, run_id, {})
        await service.until(run_id, "completed")
    assert [(await service.run(run_id))["version"] for run_id in (before, after)] == [1, 2]
    assert (await texts(service, before))["after"] == ["old"]
    assert (await texts(service, after))["after"] == ["new"]


async def test_a_run_whose_definition_this_release_refuses_fails_and_says_why(service):
    run_id = await waiting(service, delay_action("pause", "1h"), name="refused")
    flow = (await service.run(run_id))["workflow_id"]
    change = revisions.update().where(revisions.c.workflow_id == flow).values(definition={"actions": "gone"})
    await service.write(lambda connection: connection.execute(change))
    service.service._programs._kept.clear()  # as after a restart
    await service.services.runs.resume(PROJECT, run_id, {})
    run = await service.until(run_id, "failed")
    assert run["reason"].startswith("definition: ")
    assert [row["status"] for row in await service.steps(run_id)] == ["failed"]


async def test_a_run_of_a_workflow_that_was_switched_off_goes_on_to_its_end(service):
    run_id = await waiting(service, delay_action("pause", "1h"), log_action("after", "x"), name="off")
    workflow_id = (await service.run(run_id))["workflow_id"]
    await service.services.workflows.archive(PROJECT, workflow_id, running="drain")
    await service.services.runs.resume(PROJECT, run_id, {})
    assert (await service.until(run_id, "completed", "failed"))["status"] == "completed"


async def test_a_worker_whose_run_was_taken_over_writes_nothing_more(service, caplog):
    flow = await service.create(
        workflow("taken", log_action("long", "!sleep 2"), log_action("after", "x"), repository="acme/taken")
    )
    run_id = await service.started(flow.id, issue("acme/taken"))
    await service.until(run_id, "running")
    now = datetime.now(UTC)
    with caplog.at_level(logging.WARNING, "loops.runs"):
        claimed = await service.write(lambda c: store.claim(c, run_id, 0, "the other", now))
        assert claimed is not None
        await eventually(_true, lambda _: [r for r in caplog.records if "taken over" in r.message])
    row = await service.row(run_id)
    assert (row["owner"], row["status"], row["state"]["position"]) == ("the other", "running", "long")
    assert await service.steps(run_id) == []
    end = Finish("completed", "by the other")
    await service.write(lambda c: store.finish(c, run_id, 0, "the other", claimed.state, None, end, now))
    assert (await service.run(run_id))["reason"] == "by the other"


async def test_each_write_of_a_worker_that_lost_the_run_is_refused_and_changes_nothing(service):
    run_id = await waiting(service, delay_action("pause", "1h"), log_action("after", "x"), name="fenced")
    now = datetime.now(UTC)
    step = StepRow("after", "function", "after", 1, "completed", None, None, [], now, now)
    await service.write(lambda c: store.claim(c, run_id, 1, "first", now))
    claimed = await service.write(lambda c: store.claim(c, run_id, 1, "second", now))
    assert claimed is not None
    before, steps = await service.row(run_id), await service.steps(run_id)
    moved = RunState("exit", 2)
    park = Park("after", dataclasses.replace(claimed.wait, kind="again"))
    for write in (
        lambda c: store.record(c, run_id, 1, "first", moved, step, now),
        lambda c: store.park(c, run_id, 1, "first", moved, step, park, now),
        lambda c: store.finish(c, run_id, 1, "first", moved, step, Finish("failed", "x"), now),
    ):
        with pytest.raises(RunFenced):
            await service.write(write)
    assert (await service.row(run_id), await service.steps(run_id)) == (before, steps)
    await service.write(lambda c: store.record(c, run_id, 1, "second", moved, step, now))
    assert [row["step_id"] for row in await service.steps(run_id)] == ["pause", "after"]
    await service.write(lambda c: store.finish(c, run_id, 1, "second", moved, None, Finish("failed", "x"), now))


async def test_a_segment_is_claimed_only_in_its_turn(service):
    run_id = await waiting(service, delay_action("pause", "1h"), name="turns")
    now = datetime.now(UTC)
    for seq in (0, 2):
        assert await service.write(lambda c, seq=seq: store.claim(c, run_id, seq, "x", now)) is None
    assert await service.write(lambda c: store.claim(c, "no-such-run", 0, "x", now)) is None
    await service.services.runs.cancel(PROJECT, run_id)
    assert await service.write(lambda c: store.claim(c, run_id, 1, "x", now)) is None


async def test_whoever_takes_over_after_the_wait_is_over_does_not_resume_the_next_step(service):
    """A crash in the step behind a wait, in one segment with it."""
    run_id = await waiting(service, log_action("ask", "!park"), log_action("long", "!sleep 2"), name="behind")
    await service.services.runs.resume(PROJECT, run_id, {"answer": 1})
    await eventually(lambda: service.steps(run_id), lambda rows: rows[0]["status"] == "completed")
    await service.until(run_id, "running")
    now = datetime.now(UTC)
    claimed = await service.write(lambda c: store.claim(c, run_id, 1, "the other", now))
    assert claimed is not None
    assert (claimed.state.position, claimed.wait, claimed.wake) == ("long", None, None)
    assert claimed.results == {"ask": {"answer": 1}}
    await service.write(
        lambda c: store.finish(c, run_id, 1, "the other", claimed.state, None, Finish("failed", "x"), now)
    )


async def test_the_step_that_waited_ends_with_its_run_whoever_ends_it(service):
    run_id = await waiting(service, delay_action("pause", "1h"), name="ended")
    now = datetime.now(UTC)
    claimed = await service.write(lambda c: store.claim(c, run_id, 1, "x", now))
    assert claimed is not None
    end = Finish("cancelled", "x")
    await service.write(lambda c: store.finish(c, run_id, 1, "x", claimed.state, None, end, now))
    assert [row["status"] for row in await service.steps(run_id)] == ["cancelled"]


async def test_retention_forgets_segments_that_are_over_and_no_other(service):
    over = await waiting(service, delay_action("pause", "1h"), name="over")
    await service.services.runs.resume(PROJECT, over, {})
    await service.until(over, "completed")
    still = await waiting(service, delay_action("pause", "1h"), name="still")
    client = service.service._client
    segments = [(over, 0), (over, 1), (still, 0), (still, 1)]
    await eventually(lambda: client.statuses(segments), lambda found: list(found.values()).count("SUCCESS") == 3)
    assert await client.forget(before=datetime.now(UTC) - timedelta(days=1)) == 0
    assert await client.forget(before=datetime.now(UTC) + timedelta(minutes=1)) >= 3
    assert await client.statuses(segments) == {(still, 1): "DELAYED"}
    await service.services.runs.resume(PROJECT, still, {})
    await service.until(still, "completed")


async def test_a_service_survives_that_its_database_throws_everybody_out(service, request):
    if not service.service.settings.uses_postgres:
        pytest.skip("a file has no sessions")
    flow = await service.create(
        workflow("goes through", log_action("long", "!sleep 2"), log_action("after", "x"), repository="acme/through")
    )
    run_id = await service.started(flow.id, issue("acme/through"))
    await service.until(run_id, "running")
    terminate(request.getfixturevalue("postgres_server").get_uri(), service.service.settings.database_url)
    assert (await service.until(run_id, "completed", "failed"))["status"] == "completed"
    assert not service.service.stopping.is_set()
    count = await service.read(
        lambda c: c.execute(sa.select(sa.func.count()).where(run_steps.c.run_id == run_id)).scalar_one()
    )
    assert count == 3
    again = await service.started(flow.id, issue("acme/through"))
    assert (await service.until(again, "completed", "failed"))["status"] == "completed"
