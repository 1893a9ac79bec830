"""Tasks, quotas, notes and exported runs, over the API."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa

from loops.agent.models.replay import ReplayModel
from loops.agent.models.scripted import Script
from loops.agent.notes import MemoryNotes
from loops.agent.result import AgentResult
from loops.agent.tools import Resources
from loops.agent.tools.finalize import FieldType
from loops.agent.transcript import Transcript
from loops.store import outbox, spendings
from loops.store.outbox import NewMessage
from loops.store.spendings import Spent
from loops.store.tables import runs as runs_table
from loops.tasks.allowance import Allowance
from loops.tasks.prompt import opening_message
from loops.tasks.quota import QuotaLimits
from server.app import Service
from server.demo_payloads import issue_opened
from server.quotas import QuotaUse, Slot, SpendingUse, project_use, slot_of
from tests.doubles.tasks import REPORT, TaskRows, a_round, leave_note, request
from tests.integration.serving import SECRET, Api, fresh_project, listening
from tests.unit.agent.working import agent, call, ends, run, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = (
    a_round(1, ("event_read", '{"pointer": "/title"}', '{"ok": true, "result": "Export stops"}'), thought="Look."),
    a_round(2, ("finalize", '{"final_message": "Done."}', '{"ok": true}')),
)


async def a_run(api: Api) -> dict[str, Any]:
    """A run that is over: its item."""
    await api.post("workflows", listening("Report"))
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    over = {"completed", "failed"}
    found = await api.until(f"runs?delivery={delivery}", lambda page: page["items"][0]["status"] in over)
    item: dict[str, Any] = found["items"][0]
    return item


async def a_task(api: Api, run: dict[str, Any] | None = None, **columns: Any) -> TaskRows:
    """A task that a worker has taken."""
    run = run or await a_run(api)
    task = TaskRows(api.service.services.writer, api.project, run["workflow"], run["id"], **columns)
    await task.create()
    return await task.begin()


async def many(api: Api, count: int) -> list[TaskRows]:
    """Tasks of one run, the oldest first."""
    run = await a_run(api)
    return [await a_task(api, run, title=f"Task {number}") for number in range(count)]


# Tasks


async def test_tasks_are_listed_newest_first_page_by_page_and_narrowed(api: Api) -> None:
    one, two, three = await many(api, 3)
    await two.keep(*ROUNDS)
    await two.finish()
    first = await api.get("tasks", limit=2)
    assert [item["title"] for item in first["items"]] == ["Task 2", "Task 1"]
    rest = await api.get("tasks", limit=2, cursor=first["next"])
    assert ([item["id"] for item in rest["items"]], rest["next"]) == ([one.id], None)
    assert [item["id"] for item in (await api.get("tasks", status="completed"))["items"]] == [two.id]
    assert len((await api.get("tasks", workflow=one.workflow_id))["items"]) == 3
    assert (await api.get("tasks", workflow="another"))["items"] == []
    assert (await api.refused("GET", "tasks", status="skipped"))[1]["path"] == "status"
    assert three.id in {item["id"] for item in first["items"]}


async def test_a_task_that_is_over_has_its_result_tokens_and_cost(api: Api) -> None:
    task = await a_task(api)
    await task.keep(*ROUNDS)
    await task.finish(output={"severity": "high"})
    shown = await api.get(f"tasks/{task.id}")
    assert (shown["status"], shown["ending"], shown["rounds"]) == ("completed", "done", 2)
    assert (shown["input_tokens"], shown["output_tokens"], shown["cost"]) == (2403, 160, 0.025)
    assert (shown["result"]["final_message"], shown["result"]["output"]) == (REPORT, {"severity": "high"})


async def test_a_task_at_work_tells_what_it_does_and_what_it_has_spent_so_far(api: Api) -> None:
    task = await a_task(api)
    await task.keep(ROUNDS[0])
    await task.tell("calling", 2, "event_read")
    shown = await api.get(f"tasks/{task.id}")
    assert (shown["status"], shown["activity"]["phase"], shown["activity"]["calls"]) == (
        "running",
        "calling",
        ["event_read"],
    )
    assert (shown["input_tokens"], shown["cost"], shown["result"]) == (1201, 0.0125, None)


async def test_the_cost_of_a_task_is_null_as_soon_as_one_round_has_no_price(api: Api) -> None:
    task = await a_task(api)
    await task.keep(ROUNDS[0], a_round(2, cost=None))
    assert (await api.get(f"tasks/{task.id}"))["cost"] is None
    await task.finish()
    assert (await api.get(f"tasks/{task.id}"))["cost"] is None
    assert (await api.get(f"tasks/{task.id}/trace"))["cost"] is None


async def test_a_trace_has_what_the_agent_was_told_and_every_round(api: Api) -> None:
    task = await a_task(api)
    await task.keep(*ROUNDS)
    trace = await api.get(f"tasks/{task.id}/trace")
    assert trace["rounds"] == [one.as_json() for one in ROUNDS]
    assert "<triggering_event>" in trace["request"]["opening"]
    assert trace["usage"] == {
        "input": 2403, "output": 160, "cache_read": 2000, "cache_write": 0, "estimated": False,
    }  # fmt: skip
    assert (trace["cost"], trace["result"]) == (0.025, None)


async def test_tasks_of_another_project_are_not_there(
    api: Api, service: Service, session: aiohttp.ClientSession
) -> None:
    other = await fresh_project(service, session)
    task = await a_task(other)
    for path in (f"tasks/{task.id}", f"tasks/{task.id}/trace"):
        assert (await api.refused("GET", path))[0] == 404
    assert (await api.refused("POST", f"tasks/{task.id}/cancel"))[0] == 404
    assert (await api.get("tasks"))["items"] == []


async def test_cancelling_a_task_cancels_its_run(api: Api) -> None:
    waits = listening("Waits")
    waits["actions"].insert(1, {"id": "wait", "type": "delay", "name": "Wait", "config": {"delay_duration": "1h"}})
    waits["edges"] = [
        {"from": one, "to": other, "type": "continue"}
        for one, other in (("trigger", "wait"), ("wait", "note"), ("note", "exit"))
    ]
    await api.post("workflows", waits)
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    found = await api.until(f"runs?delivery={delivery}", lambda page: page["items"][0]["status"] == "waiting")
    task = await a_task(api, found["items"][0])
    status, told = await api.call("POST", f"tasks/{task.id}/cancel", {})
    assert (status, told["id"]) == (202, task.id)  # nobody works on it here, so it has not stopped
    assert (await api.get(f"runs/{task.run_id}"))["status"] == "cancelled"


async def test_a_task_that_is_over_cannot_be_cancelled(api: Api) -> None:
    task = await a_task(api)
    await task.finish()
    status, error = await api.refused("POST", f"tasks/{task.id}/cancel")
    assert (status, error["message"]) == (
        409,
        f"task {task.id} is completed; only one that is under way can be cancelled",
    )


async def test_a_run_tells_of_its_tasks(api: Api) -> None:
    task = await a_task(api)
    await task.keep(*ROUNDS)
    await task.finish()
    (shown,) = (await api.get(f"runs/{task.run_id}"))["tasks"]
    assert (shown["id"], shown["step"], shown["cost"]) == (task.id, "task", 0.025)


# Quotas

NOTHING = {"tokens": 0, "token_limit": None, "cost": 0.0, "cost_limit": None, "unpriced": 0}


async def test_quotas_count_the_trailing_day_of_the_project_and_of_each_workflow(api: Api) -> None:
    now = datetime.now(UTC)
    run = await a_run(api)
    for hours in (30, 3, 2):
        await a_task(api, run, began=now - timedelta(hours=hours))
    quotas = await api.get("quotas")
    assert quotas["project"] == {"used": 2, "limit": 500, "free": 498, "frees_at": None, "running": 3, "spent": NOTHING}
    (workflow,) = quotas["workflows"]
    assert (workflow["workflow_name"], workflow["used"], workflow["limit"]) == ("Report", 2, 100)
    assert workflow["running"] == 3


async def test_mq_09_a_full_quota_says_when_its_next_slot_frees(api: Api) -> None:
    now = datetime.now(UTC)
    run = await a_run(api)
    created = [now - timedelta(hours=hours) for hours in (5, 4, 1)]
    for moment in created:
        await (await a_task(api, run, began=moment)).finish()
    use = await api.service.services.reader.read(
        lambda connection: project_use(connection, api.project, QuotaLimits(2, 0), now)
    )
    (workflow,) = use.workflows
    assert (workflow.quota.used, workflow.quota.free, workflow.running) == (3, 0, 0)
    assert workflow.quota.frees_at == created[1] + timedelta(hours=24)
    assert (use.quota.used, use.quota.frees_at) == (3, None)


# Notes


async def test_notes_are_listed_narrowed_and_closed_with_a_reason(api: Api) -> None:
    task = await a_task(api)
    writer = api.service.services.writer
    texts = ["ask ada", "look at the log", "another matter"]
    ids = [await leave_note(writer, task, text, subject=f"s{index // 2}") for index, text in enumerate(texts)]
    listed = [item["id"] for item in (await api.get("notes"))["items"]]
    assert sorted(listed) == sorted(ids)
    first = await api.get("notes", limit=2)
    rest = await api.get("notes", limit=2, cursor=first["next"])
    assert [item["id"] for item in [*first["items"], *rest["items"]]] == listed
    closed = await api.post(f"notes/{ids[0]}/close", {"reason": " dealt with "})
    assert (closed["status"], closed["reason"], closed["text"]) == ("closed", "dealt with", "ask ada")
    assert {item["id"] for item in (await api.get("notes", status="open"))["items"]} == set(ids[1:])
    assert [item["id"] for item in (await api.get("notes", status="closed"))["items"]] == [ids[0]]
    assert [item["id"] for item in (await api.get("notes", subject="s1"))["items"]] == [ids[2]]
    assert (await api.get("notes", workflow="another"))["items"] == []


async def test_a_note_is_closed_once_and_only_with_a_reason(api: Api) -> None:
    note = await leave_note(api.service.services.writer, await a_task(api), "ask ada")
    for reason in (None, "", "  ", 7, "x" * 1001):
        status, error = await api.refused("POST", f"notes/{note}/close", {"reason": reason})
        assert (status, error["path"]) == (400, "reason")
    both = await asyncio.gather(*(api.call("POST", f"notes/{note}/close", {"reason": why}) for why in ("a", "b")))
    assert sorted(status for status, _ in both) == [200, 409]
    assert (await api.refused("POST", "notes/o_none/close", {"reason": "x"}))[0] == 404


# Export


def _script() -> Script:
    return [
        says("I read the issue.", call("event_read", {"pointer": "/properties/sender"}), thought="Read first."),
        says("", call("note_open", {"text": "ask ada"})),
        ends("It stops at 10,000 rows.", output={"severity": "high"}),
    ]


async def recorded_task(api: Api) -> tuple[str, AgentResult]:
    """A run whose task a scripted agent has worked on; the run's id, and what came of the agent."""
    run_item = await a_run(api)
    event = (await api.get(f"runs/{run_item['id']}/export"))["event"]
    fields: dict[str, FieldType] = {"severity": "string"}
    asked = {**request(), "opening": opening_message("Report.", event), "fields": fields}
    worker = agent(_script(), fields=fields, resources=Resources(event, MemoryNotes()))
    came = await run(worker, Transcript(asked["system"], asked["opening"]))
    task = TaskRows(api.service.services.writer, api.project, run_item["workflow"], run_item["id"], model="scripted:x")
    await (await task.create(asked)).begin()
    await task.keep(*came.transcript.rounds)
    await task.finish(final_message=came.message, output=dict(came.output))
    return run_item["id"], came


async def test_an_exported_run_replays_its_agent_without_a_model(api: Api) -> None:
    run_id, first = await recorded_task(api)
    assert (first.ending, first.rounds) == ("done", 3)
    document = json.loads(json.dumps(await api.get(f"runs/{run_id}/export")))
    (task,) = document["tasks"]
    recorded = Transcript.from_json(task["transcript"])
    assert recorded == first.transcript
    resources = Resources(document["event"], MemoryNotes())
    worker = agent(ReplayModel(recorded), fields=task["request"]["fields"], resources=resources)
    again = await run(worker, Transcript(recorded.system, recorded.opening))
    assert (again.ending, again.message, again.output) == ("done", first.message, {"severity": "high"})
    assert again.transcript.messages() == first.transcript.messages()


async def test_an_export_holds_all_of_a_run(api: Api) -> None:
    task = await a_task(api)
    await task.keep(*ROUNDS)
    await task.finish()
    await _message(api, task)
    document = await api.get(f"runs/{task.run_id}/export")
    assert document["format"] == "loops.run/1"
    assert document["versions"].keys() == {"loops", "python", "schema"}
    assert (document["run"]["id"], document["run"]["status"]) == (task.run_id, "completed")
    assert document["delivery"] == document["run"]["delivery"] is not None
    assert [action["id"] for action in document["definition"]["actions"]] == ["trigger", "note", "exit"]
    assert document["event"]["properties"]["repository"] == "acme/widgets"
    assert [step["id"] for step in document["steps"]] == ["note", "exit"]
    assert document["tasks"][0]["result"]["final_message"] == REPORT
    assert [message["message"] for message in document["messages"]] == [{"text": "the report"}]
    assert (await api.refused("GET", "runs/none/export"))[0] == 404


async def _message(api: Api, task: TaskRows) -> None:
    standing = {"status": "page", "refs": [], "missed": []}
    new = NewMessage(api.project, "a key", "slack", None, {"text": "the report"}, standing, task.run_id, "notify")
    await api.service.services.writer.run(lambda connection: outbox.insert(connection, new, task.began))


async def test_the_secrets_of_a_projects_connections_are_masked_in_an_export(api: Api) -> None:
    run_item = await a_run(api)  # its connection was made with SECRET
    task = await a_task(api, run_item, title=f"the secret is {SECRET}")
    await task.keep(a_round(1, ("shell", "{}", json.dumps({"ok": True, "result": SECRET})), text=SECRET))
    document = await api.get(f"runs/{run_item['id']}/export")
    assert SECRET not in json.dumps(document)
    assert document["tasks"][0]["title"] == "the secret is ***"


async def test_an_export_of_a_run_whose_event_is_no_longer_kept_says_null(api: Api) -> None:
    run_item = await a_run(api)
    change = runs_table.update().where(runs_table.c.id == run_item["id"]).values(event_uuid="forgotten")

    def forget(connection: sa.Connection) -> None:
        connection.execute(change)

    await api.service.services.writer.run(forget)
    assert (await api.get(f"runs/{run_item['id']}/export"))["event"] is None


async def test_a_budget_that_is_used_up_leaves_no_slot_until_room_frees(api: Api) -> None:
    now = datetime.now(UTC)
    run = await a_run(api)
    task = await a_task(api, run, began=now - timedelta(hours=2))
    spent_at = now - timedelta(hours=1)
    place = {"task_id": task.id, "key": "1", "project_id": api.project, "workflow_id": task.workflow_id}

    def spend(connection: Any) -> None:
        spendings.put(connection, **place, tokens=12, cost=Decimal(0), settled=True, now=spent_at)

    await api.service.services.writer.run(spend)
    await api.call("PUT", "quotas", {"quotas": {"workflow_tokens": 10}})
    (workflow,) = (await api.get("quotas"))["workflows"]
    assert (workflow["used"], workflow["free"]) == (1, 0)
    assert workflow["frees_at"] == (spent_at + timedelta(hours=24)).isoformat()
    assert (await api.get("quotas"))["project"]["free"] == 499
    await api.call("PUT", "quotas", {"quotas": {"workflow_tokens": 10, "project_cost": 0}})
    whole = await api.get("quotas")
    assert [(one["free"], one["frees_at"]) for one in (whole["project"], *whole["workflows"])] == [(0, None)] * 2


async def test_the_next_slot_is_where_the_last_of_all_limits_has_room() -> None:
    now = datetime.now(UTC)
    full, open_ = QuotaUse(2, 2, now), QuotaUse(1, 2, None)
    spent = SpendingUse(Spent(tokens=5), Allowance(tokens=5), now + timedelta(hours=1))
    assert slot_of(open_, SpendingUse()) == Slot()
    assert slot_of(full, spent) == Slot(is_full=True, at=now + timedelta(hours=1))
    assert slot_of(open_, SpendingUse(), Slot(is_full=True, at=now)) == Slot(is_full=True, at=now)
    assert slot_of(QuotaUse(0, 0, None), spent) == Slot(is_full=True)
