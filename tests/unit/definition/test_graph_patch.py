"""Small changes of a graph: what each operation does, what it refuses, and that it is all of them or none."""

import copy
from typing import Any

import pytest

from loops.definition import parse_workflow
from loops.definition.graph_patch import MOST_OPERATIONS, patched
from loops.errors import DefinitionError, Fault
from tests.unit.definition.documents import edge, loop

LOG = {
    "id": "note",
    "name": "Note",
    "type": "function",
    "config": {"template_id": "template-log", "inputs": {"text": {"value": "noted"}}},
}


def after(*operations: Any, document: Any = None) -> dict[str, Any]:
    """The loop after the operations; what was given is not touched."""
    given = loop() if document is None else document
    before = copy.deepcopy(given)
    changed: dict[str, Any] = patched(given, [*operations])
    assert given == before
    return changed


def refused(*operations: Any) -> list[Fault]:
    with pytest.raises(DefinitionError) as error:
        patched(loop(), [*operations])
    return list(error.value.faults)


def action(document: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(next(one for one in document["actions"] if one["id"] == name))


def ways(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["from"], one["to"]) for one in document["edges"]}


def test_an_update_is_merged_key_by_key_and_null_removes_a_key():
    patch = {
        "config": {"inputs": {"prompt": {"value": "Look."}, "repository": None, "skills": {"value": ["a", "b"]}}},
        "on_error": "continue",
    }
    task = action(after({"op": "update_action", "id": "create_task", "patch": patch}), "create_task")
    inputs = task["config"]["inputs"]
    assert (inputs["prompt"], inputs["skills"]) == ({"value": "Look."}, {"value": ["a", "b"]})
    assert inputs["posthog_mcp_scopes"] == {"value": "read_only"}
    assert "repository" not in inputs
    assert (task["on_error"], task["name"]) == ("continue", "Create AI task")


def test_an_action_is_put_between_two_others():
    changed = after(
        {"op": "remove_edge", "edge": edge("create_task", "notify")},
        {"op": "add_action", "action": LOG, "edges": [edge("create_task", "note"), edge("note", "notify")]},
    )
    assert [one["id"] for one in changed["actions"]] == ["trigger", "create_task", "notify", "exit", "note"]
    assert parse_workflow(changed).next_action("create_task") == "note"
    assert parse_workflow(changed).next_action("note") == "notify"


def test_what_led_to_a_removed_action_leads_to_where_it_went_on():
    changed = after({"op": "remove_action", "id": "notify"})
    assert ways(changed) == {("trigger", "create_task"), ("create_task", "exit")}
    assert parse_workflow(changed).next_action("create_task") == "exit"


def test_what_led_to_a_removed_end_goes_with_it():
    assert ways(after({"op": "remove_action", "id": "exit"})) == {("trigger", "create_task"), ("create_task", "notify")}


def test_two_ways_that_become_one_are_kept_once():
    document = loop()
    document["edges"].append(edge("create_task", "exit"))
    changed = after({"op": "remove_action", "id": "notify"}, document=document)
    assert changed["edges"].count(edge("create_task", "exit")) == 1


def test_edges_are_added_removed_and_replaced():
    edges = [edge("create_task", "exit")]
    replaced = after({"op": "replace_action_edges", "id": "create_task", "edges": edges})
    assert ways(replaced) == {("trigger", "create_task"), ("create_task", "exit"), ("notify", "exit")}
    moved = after(
        {"op": "remove_edge", "edge": edge("create_task", "notify")},
        {"op": "add_edge", "edge": edge("create_task", "exit")},
    )
    assert ways(moved) == ways(replaced)


@pytest.mark.parametrize(
    ("operation", "path", "hint"),
    [
        ({"op": "update_action", "id": "creat_task", "patch": {}}, "operations[0].id", 'did you mean "create_task"?'),
        ({"op": "remove_action", "id": "zzz"}, "operations[0].id", "there are: trigger, create_task, notify, exit"),
        ({"op": "remove_action", "id": "trigger"}, "operations[0].id", "update_action"),
        ({"op": "update_action", "id": "exit", "patch": {"id": "end"}}, "operations[0].patch.id", "add_action"),
        ({"op": "add_action", "action": {"id": "exit"}}, "operations[0].action.id", "another id"),
        ({"op": "remove_edge", "edge": edge("create_task", "exit")}, "operations[0].edge", "create_task -> notify"),
        ({"op": "remove_edge", "edge": edge("exit", "notify")}, "operations[0].edge", "no edge leaves"),
        (
            {"op": "replace_action_edges", "id": "exit", "edges": [edge("notify", "exit")]},
            "operations[0].edges[0].from",
            "add_edge",
        ),
        ({"op": "delete_action", "id": "exit"}, "operations[0].op", "action"),
        ({"id": "exit"}, "operations[0].op", "update_action"),
        ({"op": "remove_action"}, "operations[0].id", ""),
        ({"op": "remove_action", "id": "exit", "patch": {}}, "operations[0].patch", "known here: op, id"),
        ({"op": "add_edge", "edge": "create_task"}, "operations[0].edge", ""),
        ("remove_action", "operations[0]", '"op"'),
        ({"op": "update_action", "id": "exit", "patch": {"name": "\0"}}, "operations[0].patch.name", "remove"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused_at_its_place(operation: Any, path: str, hint: str):
    (fault,) = refused(operation)
    assert (fault.path, fault.message != "") == (path, True)
    assert hint in fault.hint


def test_every_fault_of_form_is_told_before_anything_is_tried():
    faults = refused({"op": "remove_action", "id": "zzz"}, {"op": "nothing"}, {"op": "add_edge"})
    assert [fault.path for fault in faults] == ["operations[1].op", "operations[2].edge"]


def test_a_later_operation_sees_what_the_earlier_ones_did():
    (fault,) = refused({"op": "remove_action", "id": "notify"}, {"op": "update_action", "id": "notify", "patch": {}})
    assert fault.path == "operations[1].id"


@pytest.mark.parametrize("operations", [None, [], {}, "x", [{"op": "add_edge"}] * (MOST_OPERATIONS + 1)])
def test_what_is_no_list_of_operations_is_refused(operations: Any):
    with pytest.raises(DefinitionError) as error:
        patched(loop(), operations)
    assert [fault.path for fault in error.value.faults] == ["operations"]


def test_deep_nesting_is_refused_before_it_can_be_walked():
    nested: Any = "x"
    for _ in range(5000):
        nested = {"a": nested}
    (fault,) = refused({"op": "update_action", "id": "exit", "patch": nested})
    assert "nested too deep" in fault.message
