"""Workflows, what arrives for them, and their runs, over the API."""

import threading
import uuid
from typing import Any

import pytest

import loops.workflows
from loops.definition import parse_workflow
from loops.definition.plain import SERVER_KEYS
from loops.store.tables import deliveries
from server.demo_payloads import issue_opened
from tests.integration.github_loops import push
from tests.integration.running import issue
from tests.integration.serving import Api, fresh_project, listening, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEDULED = {"type": "schedule"}


def own_keys(shown: dict[str, Any]) -> dict[str, Any]:
    """A shown workflow without what belongs to the server."""
    return {key: value for key, value in shown.items() if key not in {*SERVER_KEYS, "change", "warnings"}}


# Workflows


async def test_a_workflow_is_read_as_it_was_written(api: Api) -> None:
    document = listening("exact", description="as written", status="draft")
    made = await api.post("workflows", document)
    shown = await api.get(f"workflows/{made['id']}")
    assert own_keys(made) == own_keys(shown) == document
    assert (shown["version"], made["change"]) == (1, "created")


async def test_what_is_read_can_be_sent_back_and_changes_nothing(api: Api) -> None:
    made = await api.post("workflows", listening("round"))
    shown = await api.get(f"workflows/{made['id']}")
    status, told = await api.call("PUT", f"workflows/{made['id']}", shown)
    assert (status, told["change"], told["version"]) == (200, "unchanged", 1)


async def test_every_fault_of_a_workflow_is_told_with_its_path(api: Api) -> None:
    document = listening("faulty")
    document["actions"][0]["config"]["filters"]["properties"][0]["operator"] = "exakt"
    document["actions"][1]["type"] = "functio"
    status, told = await api.call("POST", "workflows", document)
    assert (status, told["error"]["code"]) == (400, "definition.invalid")
    assert {"actions[0].config.filters.properties[0].operator", "actions[1].type"} <= {
        fault["path"] for fault in told["error"]["faults"]
    }
    assert all(fault["hint"] for fault in told["error"]["faults"])
    assert (await api.get("workflows"))["items"] == []


async def test_a_document_can_be_checked_without_being_stored(api: Api) -> None:
    good = await api.post("workflows/validate", {"document": listening("fine")})
    assert (good["valid"], good["faults"]) == (True, [])
    bad = await api.post("workflows/validate", {"document": {"name": "no actions"}})
    assert not bad["valid"]
    assert bad["faults"][0]["path"] == "actions"
    assert (await api.get("workflows"))["items"] == []


@pytest.mark.parametrize("path", ["workflows/validate", "workflows/apply"])
async def test_a_call_without_its_document_says_so(api: Api, path: str) -> None:
    status, error = await api.refused("POST", path, {})
    assert (status, error["path"]) == (400, "document")


async def test_a_change_on_an_older_version_is_a_conflict(api: Api) -> None:
    made = await api.post("workflows", listening("contested"))
    path = f"workflows/{made['id']}"
    status, told = await api.call("PUT", path, listening("contested", "closed"), base_version=1)
    assert (status, told["version"], told["change"]) == (200, 2, "updated")
    assert (await api.refused("PUT", path, listening("contested", "edited"), base_version=1))[0] == 409
    assert (await api.refused("PUT", path, listening("contested", "edited"), base_version="first"))[0] == 400
    assert (await api.get(path))["version"] == 2


async def test_enabling_disabling_and_archiving_show_in_the_status(api: Api) -> None:
    made = await api.post("workflows", listening("life", status="draft"))
    path = f"workflows/{made['id']}"
    assert (await api.post(f"{path}/enable"))["status"] == "active"
    assert (await api.post(f"{path}/enable"))["status"] == "active"
    assert (await api.post(f"{path}/disable"))["status"] == "draft"
    status, told = await api.call("DELETE", path)
    assert (status, told["status"]) == (200, "archived")
    assert (await api.refused("POST", f"{path}/enable"))[0] == 409
    assert (await api.get("workflows"))["items"] == []
    (kept,) = (await api.get("workflows", status="archived"))["items"]
    assert kept["id"] == made["id"]


async def test_a_list_shows_the_trigger_and_leaves_the_graph_out(api: Api) -> None:
    document = listening("listed")
    await api.post("workflows", document)
    (item,) = (await api.get("workflows", name="listed"))["items"]
    assert item["trigger"] == document["actions"][0]["config"]
    assert "actions" not in item
    assert (await api.get("workflows", name="unheard of"))["items"] == []


async def test_apply_creates_once_and_then_follows_the_file(api: Api) -> None:
    created = await api.post("workflows/apply", {"document": listening("as a file", status="draft")})
    assert (created["change"], created["status"], created["version"]) == ("created", "draft", 1)
    same = await api.post("workflows/apply", {"document": listening("as a file", status="draft"), "enable": True})
    assert (same["id"], same["change"], same["status"]) == (created["id"], "unchanged", "active")
    changed = await api.post("workflows/apply", {"document": listening("as a file", "closed", status="draft")})
    assert (changed["id"], changed["change"], changed["status"]) == (created["id"], "updated", "active")


async def test_a_status_in_a_document_counts_only_when_it_creates(api: Api) -> None:
    plain = listening("kept as enabled as it is", status="draft")
    made = await api.post("workflows/apply", {"document": plain})
    for document in (
        {**plain, "status": "active"},
        {**plain, "status": "archived"},
        {key: value for key, value in plain.items() if key != "status"},
    ):
        again = await api.post("workflows/apply", {"document": document})
        assert again == {**made, "change": "unchanged"}
        status, told = await api.call("PUT", f"workflows/{made['id']}", document)
        assert (status, told["change"], told["status"], told["version"]) == (200, "unchanged", "draft", 1)
    other = {**plain, "status": "active", "description": "now with words"}
    changed = await api.post("workflows/apply", {"document": other})
    assert (changed["change"], changed["status"], changed["version"]) == ("updated", "draft", 2)


async def test_what_is_probably_not_meant_is_told_whenever_a_workflow_is_enabled(api: Api) -> None:
    masked: dict[str, Any] = {"trigger_masking": {"hash": "{person.id}", "ttl": 60}}
    made = await api.post("workflows", listening("by the person", status="draft", **masked))
    assert [warning["code"] for warning in made["warnings"]] == ["mask-without-person"]
    for _ in range(2):  # also when it is enabled already
        enabled = await api.post(f"workflows/{made['id']}/enable")
        assert (enabled["status"], enabled["warnings"]) == ("active", made["warnings"])
    document = listening("by the person", **masked)
    applied = await api.post("workflows/apply", {"document": document, "enable": True})
    checked = await api.post("workflows/validate", {"document": document})
    assert applied["warnings"] == checked["warnings"] == made["warnings"]
    fine = await api.post("workflows", listening("fine", status="draft"))
    assert (await api.post(f"workflows/{fine['id']}/enable"))["warnings"] == []


async def test_an_enabled_workflow_that_waits_for_schedules_and_has_none_is_told_so(api: Api) -> None:
    made = await api.post("workflows", workflow("by the clock", SCHEDULED, status="draft"))
    assert made["warnings"] == []
    for _ in range(2):
        enabled = await api.post(f"workflows/{made['id']}/enable")
        assert [warning["path"] for warning in enabled["warnings"]] == ["schedules"]
    applied = await api.post("workflows/apply", {"document": workflow("by the clock", SCHEDULED), "enable": True})
    assert applied["warnings"] == enabled["warnings"]


async def test_apply_refuses_a_name_that_two_workflows_have(api: Api) -> None:
    for _ in range(2):
        await api.post("workflows", listening("twin"))
    assert (await api.refused("POST", "workflows/apply", {"document": listening("twin")}))[0] == 409


async def test_apply_refuses_an_enable_that_is_no_boolean(api: Api) -> None:
    body = {"document": listening("maybe"), "enable": "yes"}
    status, error = await api.refused("POST", "workflows/apply", body)
    assert (status, error["path"]) == (400, "enable")


# Deliveries and why they started what they did


async def verdicts(api: Api, delivery: str, **query: Any) -> dict[str, dict[str, Any]]:
    told = await api.get(f"deliveries/{delivery}/verdicts", **query)
    return {verdict["workflow_name"]: verdict for verdict in told["verdicts"]}


async def test_a_delivery_is_found_by_our_id_and_by_the_senders(api: Api) -> None:
    key = str(uuid.uuid4())
    ours = await api.deliver(await api.github(), "issues", issue_opened(), key)
    item = await api.get(f"deliveries/{ours}")
    assert await api.get(f"deliveries/{key}") == item
    assert (item["source"], item["event"], item["key"], item["runs"]) == ("github", "issues", key, 0)
    assert (item["status"], item["reason"]) == ("ignored", "no loop listens for it")
    assert isinstance(item["connection"], str)
    assert (await api.get("deliveries"))["items"] == [item]
    assert (await api.get("deliveries", status="dispatched"))["items"] == []


async def test_each_enabled_loop_has_a_verdict_that_says_why(api: Api) -> None:
    for document in (
        listening("starts"),
        listening("wrong action", "closed"),
        listening("elsewhere", repository="acme/gadgets"),
        workflow("by the clock", SCHEDULED),
        listening("a draft", status="draft"),
    ):
        await api.post("workflows", document)
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    await api.post("workflows", listening("too late"))
    found = await verdicts(api, delivery)
    assert found["too late"]["reason"] == "the loop was enabled, or enabled again, after this delivery had arrived"
    assert {name: (one["passed"], one["stage"], one["recomputed"]) for name, one in found.items()} == {
        "starts": (True, "start", False),
        "wrong action": (False, "filters", False),
        "elsewhere": (False, "filters", True),
        "by the clock": (False, "trigger", True),
        "too late": (False, "enabled", True),
    }
    assert found["wrong action"]["reason"] == 'action is "opened", wanted exactly "closed"'
    assert found["elsewhere"]["reason"] == 'repository is "acme/widgets", wanted exactly "acme/gadgets"'
    failed = [one for one in found["elsewhere"]["compared"] if not one["passed"]]
    assert [(one["key"], one["expected"], one["actual"]) for one in failed] == [
        ("repository", ["acme/gadgets"], "acme/widgets")
    ]
    assert found["starts"]["event"] == "$github_event_received"


async def test_a_loop_that_is_named_has_a_verdict_also_as_a_draft(api: Api) -> None:
    draft = await api.post("workflows", listening("a draft", status="draft"))
    await api.post("workflows", listening("another"))
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    found = await verdicts(api, delivery, workflow=draft["id"])
    assert {name: one["stage"] for name, one in found.items()} == {"a draft": "enabled"}
    assert "draft" in found["a draft"]["reason"]
    assert (await api.refused("GET", f"deliveries/{delivery}/verdicts", workflow="none"))[0] == 404


async def test_a_verdict_is_worked_out_again_by_the_definition_of_that_time(api: Api) -> None:
    made = await api.post("workflows", listening("moved", repository="acme/gadgets"))
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    await api.call("PUT", f"workflows/{made['id']}", listening("moved", repository="acme/widgets"))
    verdict = (await verdicts(api, delivery))["moved"]
    assert (verdict["version"], verdict["passed"]) == (1, False)
    assert verdict["compared"][1]["expected"] == ["acme/gadgets"]


async def test_a_delivery_that_means_no_event_says_so(api: Api) -> None:
    await api.post("workflows", listening("waits for issues"))
    delivery = await api.deliver(await api.github(), "ping", {"zen": "Keep it logically awesome.", "hook_id": 1})
    told = await api.get(f"deliveries/{delivery}/verdicts")
    assert told["delivery"]["status"] == "ignored"
    assert told["verdicts"] == []
    assert told["note"].startswith("it means no event")


async def test_a_delivery_whose_body_is_gone_keeps_its_stored_verdicts(api: Api) -> None:
    await api.post("workflows", listening("starts"))
    await api.post("workflows", listening("elsewhere", repository="acme/gadgets"))
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    emptied = deliveries.update().where(deliveries.c.id == delivery).values(body=None, headers=None)
    await api.service.services.writer.run(lambda connection: connection.execute(emptied))
    told = await api.get(f"deliveries/{delivery}/verdicts")
    assert [verdict["workflow_name"] for verdict in told["verdicts"]] == ["starts"]
    assert "body was removed" in told["note"]


async def test_a_delivery_that_was_set_aside_says_so_and_is_not_read_again(api: Api) -> None:
    await api.post("workflows", listening("elsewhere", repository="acme/gadgets"))
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    aside = deliveries.update().where(deliveries.c.id == delivery).values(status="quarantined", reason="it broke")
    await api.service.services.writer.run(lambda connection: connection.execute(aside))
    told = await api.get(f"deliveries/{delivery}/verdicts")
    assert (told["delivery"]["reason"], told["verdicts"]) == ("it broke", [])
    assert told["note"] == "it was set aside, so no loop was asked"


async def test_deliveries_of_another_project_are_not_found(api: Api, service: Any, session: Any) -> None:
    other = await fresh_project(service, session)
    delivery = await other.deliver(await other.github(), "issues", issue_opened())
    assert (await api.refused("GET", f"deliveries/{delivery}"))[0] == 404
    assert (await api.refused("GET", f"deliveries/{delivery}/verdicts"))[0] == 404


# Runs


async def started(api: Api, **more: Any) -> dict[str, Any]:
    """The run that one delivery starts of a workflow of its own."""
    document = listening("noted")
    if more:
        document = workflow("noted", document["actions"][0]["config"], **more)
    await api.post("workflows", document)
    delivery = await api.deliver(await api.github(), "issues", issue_opened())
    wanted = "waiting" if more else "completed"
    listed = await api.until(f"runs?delivery={delivery}", lambda page: page["items"][0]["status"] == wanted)
    (run,) = listed["items"]
    return dict(run)


async def test_a_run_names_what_it_ran_why_and_with_what_outcome(api: Api) -> None:
    run = await started(api)
    assert (run["status"], run["reason"], run["cost"]) == ("completed", "Noted", 0)
    assert (run["source"], run["event"]) == ("github", "$github_event_received")
    assert run["workflow_name"] == "noted"
    assert run["started_at"] <= run["finished_at"]
    (owner,) = (await api.get("workflows"))["items"]
    assert run["workflow"] == owner["id"]
    detail = await api.get(f"runs/{run['id']}")
    assert {key: detail[key] for key in run} == run
    assert [(step["id"], step["status"]) for step in detail["steps"]] == [("note", "completed"), ("exit", "completed")]
    assert [line["text"] for line in detail["steps"][0]["log"]] == ["noted ada"]


async def test_runs_are_filtered_by_status_workflow_and_either_id_of_a_delivery(api: Api) -> None:
    run = await started(api)
    delivery = await api.get(f"deliveries/{run['delivery']}")
    for query in ({"status": "completed"}, {"workflow": run["workflow"]}, {"delivery": delivery["key"]}):
        assert (await api.get("runs", **query))["items"] == [run]
    for query in ({"status": "failed"}, {"workflow": "another"}, {"prefix": run["id"][:8] + "zz"}):
        assert (await api.get("runs", **query))["items"] == []
    assert run["what"].startswith("issues opened #")
    assert (await api.get("runs", prefix=run["id"][:8]))["items"] == [run]
    assert (await api.get("runs", delivery=delivery["id"], status="failed"))["items"] == []
    assert [one["id"] for one in (await api.get("deliveries", prefix=delivery["key"][:12]))["items"]] == [
        delivery["id"]
    ]
    status, told = await api.call("GET", "runs", delivery="another")
    assert (status, "there is no delivery 'another'" in told["error"]["message"]) == (404, True)
    for path in ("runs", "deliveries"):
        status, told = await api.call("GET", path, prefix="abc")
        assert (status, told["error"]["path"]) == (400, "prefix")


async def test_how_runs_went_is_counted_by_workflow_and_their_lines_are_read(api: Api) -> None:
    run = await started(api)
    await api.until(f"runs/{run['id']}", lambda found: found["status"] == "completed")
    (counted,) = (await api.get("stats", workflow=run["workflow"]))["items"]
    assert (counted["runs"], counted["by_status"]) == (1, {"completed": 1})
    assert (counted["tasks"], counted["cost"]) == (0, 0.0)
    assert (await api.get("stats"))["items"] == [counted]
    assert (await api.get("stats", before="2020-01-01T00:00:00Z"))["items"] == []
    assert (await api.refused("GET", "stats", after="2020-01-01"))[1]["path"] == "after"
    place = f"workflows/{run['workflow']}/logs"
    (line,) = (await api.get(place))["items"]
    assert (line["level"], line["message"], line["run"], line["step"]) == ("info", "noted ada", run["id"], "note")
    assert (await api.get(place, search="NOTED"))["items"] == [line]
    assert (await api.get(place, search="nothing"))["items"] == (await api.get(place, level="error"))["items"] == []
    assert (await api.refused("GET", "workflows/none/logs"))[0] == 404


async def test_lines_of_older_runs_are_on_the_next_page(api: Api) -> None:
    first = await started(api)
    hook = await api.github()
    second = await api.deliver(hook, "issues", issue())
    (later,) = (await api.get("runs", delivery=second))["items"]
    for one in (first, later):
        await api.until(f"runs/{one['id']}", lambda found: found["status"] == "completed")
    page = await api.get(f"workflows/{first['workflow']}/logs", limit=1)
    rest = await api.get(f"workflows/{first['workflow']}/logs", limit=1, cursor=page["next"])
    assert [line["run"] for line in page["items"] + rest["items"]] == [later["id"], first["id"]]
    assert rest["next"] is None


async def test_runs_are_found_by_a_delivery_that_is_no_longer_kept(api: Api) -> None:
    run = await started(api)
    gone = deliveries.delete().where(deliveries.c.id == run["delivery"])
    await api.service.services.writer.run(lambda connection: connection.execute(gone))
    (found,) = (await api.get("runs", delivery=run["delivery"]))["items"]
    assert (found["id"], found["what"]) == (run["id"], "GitHub")
    assert (await api.get("runs", delivery=run["delivery"], status="failed"))["items"] == []


async def test_a_waiting_run_says_what_it_waits_for_and_can_be_cancelled_once(api: Api) -> None:
    run = await started(api, wait="10m")
    assert (run["waiting_for"], run["finished_at"]) == ("timer", None)
    assert run["waiting_until"] > run["started_at"]
    cancelled = await api.post(f"runs/{run['id']}/cancel")
    assert (cancelled["id"], cancelled["status"], cancelled["waiting_for"]) == (run["id"], "cancelled", None)
    assert (await api.refused("POST", f"runs/{run['id']}/cancel", {}))[0] == 409
    assert (await api.refused("POST", f"runs/{run['id']}/resume", {}))[0] == 409


async def test_a_waiting_run_goes_on_when_it_is_resumed(api: Api) -> None:
    run = await started(api, wait="10m")
    await api.post(f"runs/{run['id']}/resume", {"payload": {"by": "ada"}})
    done = await api.until(f"runs/{run['id']}", lambda found: found["status"] == "completed")
    assert [step["id"] for step in done["steps"]] == ["wait", "note", "exit"]
    assert done["steps"][0]["result"]["resumed_early"]


@pytest.mark.parametrize("payload", [[], "text", {"a": "\0"}, {"\ud800": 1}, None], ids=repr)
async def test_a_payload_that_cannot_be_stored_wakes_nothing(api: Api, payload: object) -> None:
    run = await started(api, wait="10m")
    status, error = await api.refused("POST", f"runs/{run['id']}/resume", {"payload": payload})
    assert (status, error["path"]) == (400, "payload")
    assert (await api.get(f"runs/{run['id']}"))["status"] == "waiting"


async def test_a_push_reaches_the_loops_that_listen_to_pushes_alone(api: Api) -> None:
    await api.post("workflows", listening("issues only"))
    delivery = await api.deliver(await api.github(), "push", push())
    verdict = (await verdicts(api, delivery))["issues only"]
    assert verdict["reason"] == 'event_type is "push", wanted exactly "issues"'


# Parsing


async def test_no_definition_is_parsed_on_the_event_loop_or_inside_a_transaction(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def parse(document: Any, project: Any) -> Any:
        threads.append(threading.current_thread().name)
        return parse_workflow(document, project)

    monkeypatch.setattr(loops.workflows, "parse_workflow", parse)
    document = listening("off the loop", status="draft")
    made = await api.post("workflows", document)
    await api.call("PUT", f"workflows/{made['id']}", document)
    await api.post("workflows/validate", {"document": document})
    await api.post(f"workflows/{made['id']}/enable")
    await api.post("workflows/apply", {"document": document, "enable": True})
    assert len(threads) == 5
    assert all(name.startswith("loops-once") for name in threads)


@pytest.mark.parametrize("changes", [1, 2])
async def test_a_workflow_changed_while_it_is_being_enabled_is_read_once_more(
    api: Api, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    made = await api.post("workflows", listening("changing", status="draft"))
    workflows = api.service.services.workflows
    read = workflows.get
    told: list[int] = []

    async def outrun(project_id: str, workflow_id: str) -> Any:
        row = await read(project_id, workflow_id)
        if len(told) < changes:
            told.append(row.version)
            document = listening("changing", status="draft", description=f"change {row.version}")
            await workflows.update(project_id, workflow_id, document, "another")
        return row

    monkeypatch.setattr(workflows, "get", outrun)
    status, answered = await api.call("POST", f"workflows/{made['id']}/enable")
    monkeypatch.undo()
    shown = await api.get(f"workflows/{made['id']}")
    if changes == 1:
        assert (status, shown["status"], shown["version"]) == (200, "active", 2)
    else:
        assert (status, shown["status"], shown["version"]) == (409, "draft", 3)
        assert "changed while it was being enabled" in answered["error"]["message"]
