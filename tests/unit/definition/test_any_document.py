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
    with_function("template-log", text="{event.properties.title}", level="info"),
    with_email(html="<p>{{ event.properties.title }}</p>"),
    {**loop("event"), "trigger_masking": {"hash": "{person.id}", "ttl": 3600, "threshold": 3}},
]
WORDS = st.sampled_from(
    ["", " ", "id", "type", "value", "continue", "branch", "trigger", "exit", "function", "delay", "5m", "exact"]
    + ["{variables.a}", "{event.properties.a}", "{{ person.name }}", "{", "}}", "a|b", "acme/widgets", "$scheduled", "\0"]
)
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


@settings(max_examples=400)
@given(damaged())
def test_a_damaged_document_is_refused_with_faults_or_accepted_and_exported_equal(document):
    before = copy.deepcopy(document)
    try:
        workflow = parse_workflow(document)
    except DefinitionError as error:
        assert error.faults
        assert all(fault.message for fault in error.faults)
    else:
        compile_workflow(workflow)
        exported = export_workflow(workflow)
        assert {key: before[key] for key in exported} == exported
        assert parse_workflow(exported).actions == workflow.actions
    assert repr(document) == repr(before)


@given(VALUES)
def test_any_json_is_refused_with_faults_or_accepted(value):
    try:
        parse_workflow(value)
    except DefinitionError as error:
        assert json.dumps([[fault.path, fault.message, fault.hint] for fault in error.faults])


@given(st.sampled_from(DOCUMENTS), st.text(max_size=12))
def test_an_unknown_key_is_refused_wherever_it_stands(document, key):
    """Except inside values, whose keys are the author's own."""
    spots = [
        way
        for way in places(document)
        if not {"value", "design"} & set(way) and isinstance(_at(document, way), dict) and way[-1:] != ("inputs",)
    ]
    for way in spots:
        broken = copy.deepcopy(document)
        _at(broken, way)[f"x_{key}"] = "x"
        try:
            parse_workflow(broken)
        except DefinitionError as error:
            assert any("nown key" in fault.message or "known" in fault.hint or "stored" in fault.message for fault in error.faults)
        else:
            raise AssertionError(way)


def _at(document: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        document = document[key]
    return document
