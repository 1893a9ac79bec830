"""Whatever is done to a valid document, it is accepted and exported equal, or refused with faults."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loops.definition import compile_workflow, export_workflow, parse_workflow
from loops.errors import DefinitionError
from tests.unit.definition.documents import NOTIFIERS, TRIGGERS, loop, with_action, with_email, with_function

DOCUMENTS = [
    *(loop(trigger, notify, structured=True) for trigger in TRIGGERS for notify in NOTIFIERS),
    with_action({"type": "delay", "config": {"delay_duration": "90m"}, "on_error": "continue"}),
    with_function("template-log", text="{event.properties.title}"),
    with_email(html="<p>{{ event.properties.title }}</p>"),
    {**loop("event"), "trigger_masking": {"hash": "{person.id}", "ttl": 3600, "threshold": 3}},
    {
        **loop("github"),
        "trigger_rate_limit": {"count": 3, "period": 60},
        "trigger_debounce": {"quiet": 5, "longest": 60, "key": "{event.properties.number}"},
        "trigger_overlap": {"policy": "queue", "maximum": 3, "key": "all"},
    },
]
KEYS = ["", " ", "id", "type", "value", "continue", "branch", "trigger", "exit", "function", "delay", "5m", "exact"]
TEXTS = ["{variables.a}", "{event.properties.a}", "{{ person.name }}", "{", "}}", "a|b", "acme/widgets", "\0"]
WORDS = st.sampled_from([*KEYS, *TEXTS])
SCALARS = st.none() | st.booleans() | st.integers(-2, 10**20) | st.floats() | WORDS | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(WORDS, children, max_size=3),
    max_leaves=6,
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [way, *(place for key in keys for place in places(value[key], (*way, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A valid document after one to three random changes anywhere in it."""
    holder = {"document": copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))}
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(places(holder)[1:]))
        parent: Any = holder
        for key in way:
            parent = parent[key]
        change = draw(st.sampled_from(["replace", "remove", "repeat", "add"]))
        if change == "remove" and way:
            del parent[last]
        elif change == "repeat" and isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        elif change == "add" and isinstance(parent[last], dict):
            parent[last][draw(WORDS)] = draw(VALUES)
        else:
            parent[last] = draw(VALUES)
    return holder["document"]


def refusal(document: Any) -> DefinitionError | None:
    try:
        parse_workflow(document)
    except DefinitionError as error:
        return error
    return None


@settings(max_examples=200)
@given(damaged())
def test_a_damaged_document_is_refused_with_faults_or_accepted_and_exported_equal(document):
    before = copy.deepcopy(document)

    refused = refusal(document)

    assert repr(document) == repr(before)
    if refused is not None:
        assert refused.faults
        assert all(fault.message for fault in refused.faults)
        return
    workflow = parse_workflow(document)
    compile_workflow(workflow)
    exported = export_workflow(workflow)
    assert exported == {key: before[key] for key in exported}
    assert parse_workflow(exported).actions == workflow.actions


@given(VALUES)
def test_any_json_is_refused_with_faults_that_can_be_sent(value):
    refused = refusal(value)

    assert refused is not None
    assert json.dumps([[fault.path, fault.message, fault.hint] for fault in refused.faults])


def at(document: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        document = document[key]
    return document


def closed_objects() -> list[tuple[Any, tuple[Any, ...]]]:
    """The documents with the ways to each of their objects that takes no key of anybody's. Where several documents hold
    the same at the same place, one of them is enough."""
    found = {}
    for document in DOCUMENTS:
        for way in places(document):
            inside = at(document, way)
            if isinstance(inside, dict) and not {"value", "design"} & set(way):
                found[way, json.dumps(inside, sort_keys=True)] = document, way
    return list(found.values())


OBJECTS = closed_objects()


def with_key(document: Any, way: tuple[Any, ...], key: str) -> Any:
    broken = copy.deepcopy(document)
    at(broken, way)[key] = "x"
    return broken


def test_an_unknown_key_is_refused_wherever_it_stands_but_in_values():
    assert len(OBJECTS) > 100
    for document, way in OBJECTS:
        refused = refusal(with_key(document, way, "x_key"))

        assert refused is not None, way
        assert any("x_key" in str(fault) for fault in refused.faults), way


@given(st.sampled_from(OBJECTS), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_an_unknown_key_is_refused_whatever_it_is_called(place, key):
    document, way = place

    refused = refusal(with_key(document, way, f"x_{key}"))

    assert refused is not None
    assert any("x_" in str(fault) for fault in refused.faults)
