"""The rules of the graph: one way in, no way back, a way on from everything that is reached."""

import itertools

import pytest

from loops.definition import export_workflow
from tests.unit.definition.documents import Document, edge, faults_of, loop, parsed, warned


def chain(*ids: str, edges: list[Document] | None = None) -> Document:
    """A workflow of delays, each leading to the next, between a trigger and an exit."""
    document = loop("schedule", "nobody")
    trigger, _, end = document["actions"]
    waits = [{"id": name, "type": "delay", "config": {"delay_duration": "1m"}} for name in ids]
    document["actions"] = [trigger, *waits, end]
    names = ["trigger", *ids, "exit"]
    document["edges"] = edges or [edge(a, b) for a, b in itertools.pairwise(names)]
    return document


def told_of(document: Document) -> list[tuple[str, str]]:
    return [(fault.path, fault.message) for fault in faults_of(document)]


def test_a_workflow_without_a_trigger_is_refused():
    document = chain("a")
    document["actions"].pop(0)
    document["edges"].pop(0)

    assert told_of(document) == [("actions", "hold no trigger")]


def test_a_workflow_with_two_triggers_is_refused_with_their_places():
    document = chain("a")
    document["actions"].append({**document["actions"][0], "id": "again"})

    assert told_of(document) == [("actions", "hold 2 triggers, at actions[0], actions[3]")]


def test_ids_are_unique():
    document = chain("a", "b")
    document["actions"][2]["id"] = "a"
    document["edges"] = [edge("trigger", "a"), edge("a", "exit")]

    assert told_of(document) == [("actions[2].id", '"a" stands twice, first at actions[1]')]


@pytest.mark.parametrize("length", [0, 201])
def test_an_id_has_one_to_two_hundred_characters(length):
    name = "i" * length
    assert "actions[1].id" in [path for path, _ in told_of(chain(name))]


def test_an_id_of_two_hundred_characters_is_fine():
    assert parsed(chain("i" * 200))


def test_an_edge_to_nowhere_is_refused_at_its_end():
    document = chain("a")
    document["edges"].append({"from": "aa", "to": "exit", "type": "continue"})

    assert told_of(document) == [("edges[2].from", 'no action has the id "aa"')]


def test_nothing_leads_to_the_trigger():
    document = chain("a")
    document["edges"].append(edge("exit", "trigger"))

    assert told_of(document) == [("edges[2].to", 'nothing leads to the trigger "trigger"')]


@pytest.mark.parametrize(
    ("edges", "path", "way"),
    [
        ([edge("trigger", "a"), edge("a", "a"), edge("a", "exit")], "edges[1]", "a -> a"),
        (
            [edge("trigger", "a"), edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("c", "exit")],
            "edges[3]",
            "a -> b -> c -> a",
        ),
        (
            [edge("trigger", "a"), edge("a", "exit"), edge("b", "c"), edge("c", "b")],
            "edges[3]",
            "b -> c -> b",
        ),
    ],
)
def test_a_cycle_is_refused_with_its_way_even_where_no_run_comes(edges, path, way):
    told = told_of(chain("a", "b", "c", edges=edges))

    assert (path, f"closes a cycle: {way}") in told


def test_ways_may_join_without_being_a_cycle():
    edges = [edge("trigger", "a"), edge("a", "c"), edge("a", "b"), edge("b", "c"), edge("c", "exit")]

    workflow = parsed(chain("a", "b", "c", edges=edges))

    assert workflow.next_action("a") == "c"


def test_only_the_first_way_on_is_followed_and_the_others_are_a_warning():
    edges = [edge("trigger", "a"), edge("a", "exit"), edge("a", "b"), edge("b", "exit")]

    workflow = parsed(chain("a", "b", edges=edges))

    assert workflow.next_action("a") == "exit"
    assert ("edges[2]", 'is never followed: "a" goes on by edges[1]') in [
        (warning.path, warning.message) for warning in warned(workflow)
    ]


def test_an_action_that_is_reached_and_leads_nowhere_is_refused():
    document = chain("a", "b")
    document["edges"].pop()

    told = told_of(document)

    assert told == [("actions[2]", '"b" leads nowhere: no continue edge leaves it')]


def test_a_trigger_that_leads_nowhere_is_refused():
    document = chain("a")
    document["edges"].pop(0)

    assert told_of(document) == [("actions[0]", '"trigger" leads nowhere: no continue edge leaves it')]


def test_an_action_that_is_never_reached_is_a_warning():
    document = chain("a", "b", edges=[edge("trigger", "a"), edge("a", "exit")])

    workflow = parsed(document)

    assert [(warning.path, warning.message) for warning in warned(workflow)] == [("actions[2]", '"b" is never reached')]
    assert export_workflow(workflow) == document


def test_an_edge_from_an_exit_is_never_followed_and_a_warning():
    document = chain("a", "b", edges=[edge("trigger", "a"), edge("a", "exit"), edge("exit", "b")])

    workflow = parsed(document)

    assert [(warning.path, warning.message) for warning in warned(workflow)] == [
        ("edges[2]", 'is never followed: "exit" ends the run'),
        ("actions[2]", '"b" is never reached'),
    ]


def test_a_branch_from_an_action_that_has_none_is_refused():
    document = chain("a")
    document["edges"].append({"from": "a", "to": "exit", "type": "branch", "index": 0})

    assert told_of(document) == [("edges[2].type", '"a" has no branches: it is of type delay')]


def test_a_branch_from_an_exit_is_refused():
    document = chain("a")
    document["edges"].append({"from": "exit", "to": "a", "type": "branch", "index": 0})

    assert ("edges[2].type", '"exit" has no branches: it is of type exit') in told_of(document)


def test_a_branch_edge_needs_an_index():
    document = chain("a")
    document["edges"].append({"from": "a", "to": "exit", "type": "branch"})

    assert ("edges[2].index", "is required on a branch edge") in told_of(document)


@pytest.mark.parametrize("index", [-1, 1.5, "0", True])
def test_the_index_of_a_branch_is_a_whole_number_from_zero(index):
    document = chain("a")
    document["edges"].append({"from": "a", "to": "exit", "type": "branch", "index": index})

    assert "edges[2].index" in [path for path, _ in told_of(document)]


def test_a_continue_edge_may_say_that_it_has_no_index():
    document = chain("a")
    document["edges"][0]["index"] = None

    workflow = parsed(document)

    assert workflow.next_action("trigger") == "a"
    assert export_workflow(workflow) == document


def test_two_edges_from_one_branch_are_refused():
    document = chain("a")
    branch = {"from": "a", "to": "exit", "type": "branch", "index": 0}
    document["edges"] += [branch, branch]

    assert ("edges[3].index", 'branch 0 of "a" is taken by edges[2]') in told_of(document)


def test_a_long_chain_is_no_trouble():
    ids = [f"wait_{number}" for number in range(198)]

    workflow = parsed(chain(*ids))

    assert workflow.next_action("wait_197") == "exit"


def test_a_long_circle_is_found():
    ids = [f"wait_{number}" for number in range(198)]
    document = chain(*ids)
    document["edges"].append(edge("wait_197", "wait_0"))

    ((path, message),) = told_of(document)

    assert path == "edges[199]"
    assert message.startswith("closes a cycle: wait_0 -> wait_1 -> ")
    assert message.endswith(" -> wait_197 -> wait_0")
    assert len(message) < 300
