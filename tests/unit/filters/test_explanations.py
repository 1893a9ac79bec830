import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loops.filters import compile_filter
from tests.unit.filters.events import GITHUB, actuals, event, one, operators_and_wishes

keys = st.sampled_from(["repository", "action", "p"])
values = st.sampled_from(["opened", "Opened", "5", 5, True])
kinds = st.sampled_from(
    [{}, {"type": "event"}, {"type": "person"}, {"type": "group", "group_type_index": 1}, {"type": "feature"}]
)
leaves = st.builds(
    lambda key, asked, kind: {"key": key, "operator": asked[0], "value": asked[1], **kind},
    keys,
    operators_and_wishes,
    kinds,
) | st.sampled_from(
    [
        {"type": "hogql", "key": "properties.action = 'opened'"},
        {"type": "hogql", "key": "length(properties.action) > 3"},
        {"type": "element", "key": "text", "operator": "is_not", "value": "Buy"},
    ]
)
entries = st.lists(
    st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda kind, branches: {"type": kind, "values": branches},
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, max_size=3),
        ),
        max_leaves=5,
    ),
    max_size=3,
)
wanted_events = st.lists(
    st.builds(lambda name, own: {"id": name, "properties": own}, st.sampled_from(["a", "b", None]), entries), max_size=3
)


def words(key: str, operator: str, wanted: Any, actual: Any) -> str:
    (comparison,) = one(key, operator, wanted).explain(event({key: actual}))
    return comparison.words()


@given(
    common=entries,
    events=wanted_events,
    name=st.sampled_from(["a", "b", "c"]),
    properties=st.dictionaries(keys, st.none() | values | actuals),
)
def test_what_was_compared_all_passed_exactly_when_the_event_matches(
    common: Any, events: Any, name: str, properties: Any
) -> None:
    compiled = compile_filter({"properties": common, "events": events})
    groups: Any = {"company": {"index": 1, "id": "acme", "properties": properties}}
    occurred = event(properties, name=name, person=properties, groups=groups)
    compared = compiled.explain(occurred)
    assert compiled.matches(occurred) is all(comparison.passed for comparison in compared)
    json.dumps([comparison.as_json() for comparison in compared])
    assert all(comparison.words() for comparison in compared)


def test_the_words_name_the_key_the_value_and_the_wish() -> None:
    assert words("action", "exact", "opened", "closed") == 'action is "closed", wanted exactly "opened"'
    assert words("action", "exact", ["a", "b"], "c") == 'action is "c", wanted one of "a", "b"'
    assert words("action", "exact", ["opened"], None) == 'action is not set, wanted exactly "opened"'
    assert words("number", "is_not", 5, 5) == "number is 5, wanted anything but 5"
    assert words("number", "is_not", [5, 6], 5) == "number is 5, wanted none of 5, 6"
    assert words("bot_sender", "is_not_set", "x", "x[bot]") == 'bot_sender is "x[bot]", wanted no value'
    assert words("bot_sender", "is_set", "x", None) == "bot_sender is not set, wanted any value"
    assert words("title", "icontains", "fire", "Typo") == 'title is "Typo", wanted text that contains "fire"'
    assert words("title", "icontains", ["é", "b"], "") == 'title is "", wanted text that contains one of "é", "b"'


def test_the_events_name_is_compared_first() -> None:
    compiled = compile_filter({"events": [{"id": "b"}, {"id": "a"}], "properties": [{"key": "p", "value": "x"}]})
    compared = compiled.explain(event(name="c"))
    assert [comparison.words() for comparison in compared] == [
        'event is "c", wanted one of "a", "b"',
        'p is not set, wanted exactly "x"',
    ]


def test_of_the_alternatives_the_one_that_held_is_told_and_else_all_for_this_event() -> None:
    wanted: list[Any] = [
        {"id": "paid", "properties": [{"key": "plan", "value": "pro"}]},
        {"id": "paid", "properties": [{"key": "plan", "value": "team"}]},
        {"id": "left", "properties": [{"key": "why", "value": "price"}]},
    ]
    compiled = compile_filter({"events": wanted})
    held = compiled.explain(event({"plan": "team"}, name="paid"))
    assert [comparison.words() for comparison in held[1:]] == ['plan is "team", wanted exactly "team"']
    failed = compiled.explain(event({"plan": "free"}, name="paid"))
    assert [comparison.expected for comparison in failed[1:]] == ["pro", "team"]


def test_repositories_are_shown_as_they_were_written() -> None:
    (compared,) = one("repository", "exact", "Acme/Widgets").explain(event({"repository": "acme/widgets"}))
    assert (compared.expected, compared.actual, compared.passed) == ("Acme/Widgets", "acme/widgets", True)


def test_long_values_are_cut() -> None:
    long = "x" * 70_000
    (compared,) = one("body", "exact", [long, long]).explain(event({"body": long}))
    assert len(compared.words()) < 500
    assert len(json.dumps(compared.as_json())) < 1_000
    assert compared.actual == long
    (structure,) = one("whole", "is_set").explain(event({"whole": {"a": [long]}}))
    assert len(json.dumps(structure.as_json())) < 600
    (small,) = one("whole", "is_set").explain(event({"whole": {"a": [1]}}))
    assert small.as_json()["actual"] == {"a": [1]}


def test_a_comparison_is_stored_with_everything_that_was_compared() -> None:
    compared = compile_filter({"events": [{"id": GITHUB}]}).explain(event())
    assert [comparison.as_json() for comparison in compared] == [
        {"key": "event", "operator": "exact", "expected": [GITHUB], "actual": GITHUB, "passed": True}
    ]
