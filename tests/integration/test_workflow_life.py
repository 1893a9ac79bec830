"""Changing a workflow beside others who change it, and switching it off while it runs: on both databases."""

import asyncio
from typing import Any

import pytest

from tests.integration.running import issue
from tests.integration.serving import Api, listening, workflow
from tests.unit.definition.documents import edge, loop

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refused(api: Api, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
    """The error of a conflict."""
    status, error = await api.refused(method, path, body, **query)
    assert status == 409, error
    return error


async def waiting(api: Api, name: str) -> tuple[str, str]:
    """A workflow and the id of its run, which waits."""
    made = await api.post("workflows", workflow(name, listening("x")["actions"][0]["config"], wait="10m"))
    await api.deliver(await api.github(), "issues", issue())
    (run,) = (await api.get("runs", workflow=made["id"]))["items"]
    await api.until(f"runs/{run['id']}", lambda found: found["status"] == "waiting")
    return str(made["id"]), str(run["id"])


# Changing


async def test_keys_are_set_one_by_one_and_the_graph_stays(api: Api) -> None:
    made = await api.post("workflows", listening("renamed", status="draft", description="before"))
    path = f"workflows/{made['id']}"
    mask = {"hash": "{event.properties.number}", "ttl": 3600}
    status, told = await api.call("PATCH", path, {"name": "another name", "trigger_masking": mask})
    assert (status, told["change"], told["version"]) == (200, "updated", 2)
    assert (told["name"], told["trigger_masking"], told["description"]) == ("another name", mask, "before")
    assert told["actions"] == made["actions"]
    assert (await api.get("workflows", search="ANOTHER NA"))["items"][0]["id"] == made["id"]
    assert (await api.get("workflows", search="%"))["items"] == []


@pytest.mark.parametrize(
    ("changes", "path", "hint"),
    [
        ({"actions": []}, "actions", "operations"),
        ({"status": "active"}, "status", "enable"),
        ({"origin_product": "loops"}, "origin_product", "another workflow"),
        ({"nmae": "x"}, "nmae", 'did you mean "name"?'),
        ({"name": ""}, "name", ""),
        ({"trigger_masking": {"hash": "{event."}}, "trigger_masking.hash", ""),
    ],
)
async def test_what_is_not_set_by_itself_is_refused(api: Api, changes: Any, path: str, hint: str) -> None:
    made = await api.post("workflows", listening("fixed"))
    status, error = await api.refused("PATCH", f"workflows/{made['id']}", changes)
    assert (status, error["path"]) == (400, path)
    assert hint in error.get("hint", "")
    assert (await api.get(f"workflows/{made['id']}"))["version"] == 1


async def test_where_a_workflow_comes_from_is_set_when_it_is_created(api: Api) -> None:
    made = await api.post("workflows", listening("ours", origin_product="loops"))
    path = f"workflows/{made['id']}"
    for method, body in (("PUT", listening("ours")), ("PATCH", {"origin_product": None})):
        status, error = await api.refused(method, path, body)
        assert (status, error["path"]) == (400, "origin_product")
    assert (await api.call("PATCH", path, {"origin_product": "loops", "description": "x"}))[1]["change"] == "updated"
    assert [one["id"] for one in (await api.get("workflows", origin_product="loops"))["items"]] == [made["id"]]


async def test_the_graph_is_changed_by_operations_which_are_all_done_or_none(api: Api) -> None:
    made = await api.post("workflows", listening("graph"))
    path = f"workflows/{made['id']}/graph"
    text = {"config": {"inputs": {"text": {"value": "opened by {event.properties.sender}"}}}}
    operations: list[Any] = [
        {"op": "update_action", "id": "note", "patch": text},
        {"op": "add_action", "action": {"id": "wait", "type": "delay", "config": {"delay_duration": "5m"}}},
        {"op": "replace_action_edges", "id": "note", "edges": [{"from": "note", "to": "wait", "type": "continue"}]},
        {"op": "add_edge", "edge": {"from": "wait", "to": "exit", "type": "continue"}},
    ]
    status, told = await api.call("PATCH", path, {"operations": operations, "base_updated_at": made["updated_at"]})
    assert (status, told["version"]) == (200, 2)
    assert [action["id"] for action in told["actions"]] == ["trigger", "note", "exit", "wait"]
    assert told["actions"][1]["config"]["inputs"] == text["config"]["inputs"]

    # The last one makes a cycle, which only the checks of the whole find: its path is one of the document.
    cycle = [
        {"op": "remove_action", "id": "exit"},
        {"op": "add_edge", "edge": {"from": "wait", "to": "note", "type": "continue"}},
    ]
    status, error = await api.refused("PATCH", path, {"operations": cycle})
    assert (status, error["path"]) == (400, "edges[2]")
    status, error = await api.refused("PATCH", path, {"operations": [{"op": "remove_action", "id": "nobody"}]})
    assert (status, error["path"]) == (400, "operations[0].id")
    assert (await api.get(f"workflows/{made['id']}"))["version"] == 2


async def test_a_change_on_what_is_not_current_names_what_it_was_made_on_and_what_there_is(api: Api) -> None:
    made = await api.post("workflows", listening("contested"))
    path = f"workflows/{made['id']}"
    changed = (await api.call("PATCH", path, {"description": "somebody else was here"}))[1]
    operations = [{"op": "update_action", "id": "exit", "patch": {"name": "End"}}]
    on_time = {"operations": operations, "base_updated_at": made["updated_at"]}
    for method, target, body, query in (
        ("PATCH", f"{path}/graph", on_time, {}),
        ("PATCH", path, {"description": "mine"}, {"base_updated_at": made["updated_at"]}),
        ("PUT", path, listening("contested", "closed"), {"base_updated_at": made["updated_at"]}),
    ):
        error = await refused(api, method, target, body, **query)
        assert error["path"] == "base_updated_at"
        assert "at version 2" in error["message"]
        assert changed["updated_at"] in error["message"]
        assert made["updated_at"] in error["message"]
    error = await refused(api, "PATCH", f"{path}/graph", {"operations": operations, "base_version": 1})
    assert (error["path"], "version 2" in error["message"], "version 1" in error["message"]) == (
        "base_version",
        True,
        True,
    )
    again = {"operations": operations, "base_updated_at": changed["updated_at"], "base_version": 2}
    assert (await api.call("PATCH", f"{path}/graph", again))[1]["version"] == 3


@pytest.mark.parametrize("base", ["yesterday", "2026-11-30T09:00:00", 7])
async def test_a_base_that_is_no_instant_is_refused(api: Api, base: object) -> None:
    made = await api.post("workflows", listening("based"))
    body = {"operations": [{"op": "remove_action", "id": "note"}], "base_updated_at": base}
    status, error = await api.refused("PATCH", f"workflows/{made['id']}/graph", body)
    assert (status, error["path"]) == (400, "base_updated_at")


async def test_two_changes_at_once_lose_none_of_them(api: Api) -> None:
    made = await api.post("workflows", listening("busy"))
    changes: list[dict[str, Any]] = [{"name": "busy still"}, {"description": "described"}]
    told = await asyncio.gather(*(api.call("PATCH", f"workflows/{made['id']}", change) for change in changes))
    assert [status for status, _ in told] == [200, 200]
    shown = await api.get(f"workflows/{made['id']}")
    assert (shown["name"], shown["description"], shown["version"]) == ("busy still", "described", 3)


async def test_a_loop_that_gets_another_step_is_shown_as_changed_and_by_what(api: Api) -> None:
    made = await api.post("workflows", loop("github", "nobody"))
    path = f"workflows/{made['id']}"
    assert (made["shape"], made["changed"]) == ("loop", [])
    note = {"template_id": "template-log", "inputs": {"text": {"value": "noted"}}}
    operations: list[Any] = [
        {"op": "add_action", "action": {"id": "note", "type": "function", "config": note}},
        {"op": "replace_action_edges", "id": "create_task", "edges": [edge("create_task", "note")]},
        {"op": "add_edge", "edge": edge("note", "exit")},
    ]
    status, told = await api.call("PATCH", f"{path}/graph", {"operations": operations})
    assert (status, told["shape"], told["changed"][0]["path"]) == (200, "changed", "actions[3]")
    assert "template-log" in told["changed"][0]["message"]
    assert [one["shape"] for one in (await api.get("workflows"))["items"]] == ["changed"]
    # What is shown can be sent back.
    shown = await api.get(path)
    assert (await api.call("PUT", path, shown))[1]["change"] == "unchanged"
    other = await api.post("workflows", listening("of another origin"))
    assert (other["shape"], other["changed"]) == ("workflow", [])


# Switching off


async def test_a_workflow_that_runs_asks_what_becomes_of_its_runs(api: Api) -> None:
    workflow_id, run_id = await waiting(api, "asks")
    path = f"workflows/{workflow_id}"
    for method, target in (("POST", f"{path}/disable"), ("DELETE", path)):
        error = await refused(api, method, target)
        assert error["path"] == "running"
        assert "1 run of workflow 'asks' is under way (1 waiting)" in error["message"]
        assert run_id in error["message"]
        assert "drain" in error["hint"]
        assert "cancel" in error["hint"]
    assert (await api.get(path))["status"] == "active"
    assert (await api.refused("POST", f"{path}/disable", {"running": "kill"}))[0] == 400
    await api.post(f"{path}/disable", {"running": "cancel"})


async def test_runs_that_are_drained_go_on_to_their_end(api: Api) -> None:
    workflow_id, run_id = await waiting(api, "drained")
    path = f"workflows/{workflow_id}"
    told = await api.post(f"{path}/disable", {"running": "drain"})
    assert (told["status"], told["runs"]) == ("draft", {"draining": 1, "cancelled": 0, "stopping": 0})
    assert (await api.post(f"{path}/disable"))["runs"]["draining"] == 1  # it starts none any more: nothing to ask
    await api.post(f"runs/{run_id}/resume")
    await api.until(f"runs/{run_id}", lambda found: found["status"] == "completed")
    status, told = await api.call("DELETE", path)
    assert (status, told["status"], told["runs"]["draining"]) == (200, "archived", 0)


async def test_runs_that_are_cancelled_are_over_when_the_answer_comes(api: Api) -> None:
    workflow_id, run_id = await waiting(api, "cancelled")
    await api.deliver(await api.github(), "issues", issue())
    status, told = await api.call("DELETE", f"workflows/{workflow_id}", running="cancel")
    assert (status, told["status"]) == (200, "archived")
    assert told["runs"] == {"draining": 0, "cancelled": 2, "stopping": 0}
    runs = (await api.get("runs", workflow=workflow_id))["items"]
    assert {run["status"] for run in runs} == {"cancelled"}
    assert run_id in {run["id"] for run in runs}


async def test_what_drains_can_be_cancelled_later(api: Api) -> None:
    workflow_id, run_id = await waiting(api, "second thoughts")
    await api.post(f"workflows/{workflow_id}/disable", {"running": "drain"})
    told = await api.post(f"workflows/{workflow_id}/disable", {"running": "cancel"})
    assert told["runs"]["cancelled"] == 1
    assert (await api.get(f"runs/{run_id}"))["status"] == "cancelled"
