from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters import Filter, ProjectFilters, compile_condition, compile_filter
from loops.filters.scope import EVENT_ROOTS, FilterScope
from tests.unit.filters.events import actuals, event, one

GROUPS: Any = {"company": {"id": "acme", "index": 1, "properties": {"plan": "pro"}}}
CHAIN = 'a.x:href="/b"attr_id="go"text="Buy";div:text="Buy"attr_id="box";form'


def said(expression: str, *more: Any) -> Filter:
    return compile_filter({"properties": [{"type": "hogql", "key": expression, "value": None}, *more]})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("properties.amount > 100", True),
        ("properties.amount > 100 and properties.currency = 'EUR'", False),
        ("event = '$github_event_received'", True),
        ("distinct_id = 'ada' and uuid = '0c7a'", True),
        ("person.properties.email ilike '%@ACME.com'", True),
        ("person.id = 'p-1' and pdi.person_id = 'p-1' and pdi.person.properties.email is not null", True),
        ("$group_1 = 'acme' and group_1.properties.plan = 'pro'", True),
        ("$group_0 is null and group_0.properties.plan is null", True),
        ("elements_chain_href = '/b' and has(elements_chain_texts, 'Buy')", True),
        ("properties.missing > 5", False),
        ("properties.nested.deep = 1", True),
        ("toDateTime(timestamp) < now()", True),
    ],
)
def test_an_expression_sees_the_event_as_posthogs_filters_do(expression: str, expected: bool) -> None:
    properties: Any = {"amount": "150", "currency": "USD", "nested": {"deep": 1}, "$elements_chain": CHAIN}
    occurred = event(properties, person={"email": "ada@acme.com"}, groups=GROUPS)
    project = ProjectFilters(now=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    compiled = compile_filter({"properties": [{"type": "hogql", "key": expression}]}, project=project)
    assert compiled.matches(occurred) is expected


@pytest.mark.parametrize(("moment", "expected"), [(2025, True), (2023, False)])
def test_case_86_an_expression_compares_the_time_of_the_event(moment: int, expected: bool) -> None:
    compiled = said("timestamp > toDateTime('2024-01-01')")
    occurred = event()
    made = type(occurred)("u", "e", "posthog", "d", datetime(moment, 6, 1, tzinfo=UTC), {})
    assert compiled.matches(made) is expected


@pytest.mark.parametrize("expression", ["(select 1)", "properties.x in (SELECT id FROM events)", "select 1"])
def test_case_73_a_query_is_refused_in_words_of_its_own(expression: str) -> None:
    with pytest.raises(FilterError) as caught:
        said(expression)
    assert caught.value.path == "filters.properties[0].key"
    assert "queries are not allowed in a filter" in caught.value.message


def test_case_87_groups_are_under_their_index_and_the_rest_is_empty() -> None:
    scope = FilterScope(event(groups=GROUPS), {}, ProjectFilters())
    assert [scope[f"$group_{index}"] for index in range(5)] == [None, "acme", None, None, None]
    assert [scope[f"group_{index}"] for index in range(5)] == [
        {"properties": {"plan": "pro"}} if index == 1 else {"properties": {}} for index in range(5)
    ]


def test_case_88_the_elements_are_taken_apart() -> None:
    scope = FilterScope(event({"$elements_chain": CHAIN}), {}, ProjectFilters())
    assert scope["elements_chain"] == CHAIN
    assert scope["elements_chain_href"] == "/b"
    assert scope["elements_chain_texts"] == ["Buy"]
    assert scope["elements_chain_ids"] == ["go", "box"]
    assert scope["elements_chain_elements"] == ["a", "form"]
    bare = FilterScope(event(), {}, ProjectFilters())
    assert (bare["elements_chain_href"], bare["elements_chain_texts"]) == ("", [])


def test_the_names_of_a_scope_are_those_that_may_be_read() -> None:
    scope = FilterScope(event(), {"x": 1}, ProjectFilters())
    assert {*scope} == {*EVENT_ROOTS, "variables", "__now__"}
    assert len(scope) == len({*scope})
    assert all(name in scope for name in EVENT_ROOTS)


def test_a_lone_expression_must_come_to_true_itself_and_beside_others_to_something_true() -> None:
    occurred = event({"count": 1, "zero": 0})
    assert not said("properties.count").matches(occurred)
    assert said("properties.count", {"key": "count", "value": 1}).matches(occurred)
    assert not said("properties.zero", {"key": "count", "value": 1}).matches(occurred)
    named = compile_filter({"events": [{"id": None, "properties": [{"type": "hogql", "key": "properties.count"}]}]})
    assert not named.matches(occurred)
    entries: Any = [{"type": "hogql", "key": "properties.count"}]
    assert compile_filter({"events": [{"id": occurred.name}], "properties": entries}).matches(occurred)
    assert said("properties.count = 1").matches(occurred)


def test_an_expression_says_what_it_came_to() -> None:
    (compared,) = said("properties.count > 1").explain(event({"count": 1}))
    assert compared.words() == "properties.count > 1 is false, wanted exactly true"
    (compared,) = said("properties.count").explain(event({"count": 1}))
    assert compared.words() == "properties.count is 1, wanted exactly true"


def test_an_expression_that_fails_for_an_event_is_told_and_starts_nothing() -> None:
    compiled = said("length(properties.tags) > 1")
    assert compiled.matches(event({"tags": ["a", "b"]}))
    assert not compiled.matches(event({"tags": 5}))
    (compared,) = compiled.explain(event({"tags": 5}))
    assert compared.words().startswith("length(properties.tags) > 1: filter error, length() needs a text")
    assert "length() needs a text" in str(compared.as_json()["error"])


def test_variables_are_read_in_a_condition_alone() -> None:
    entry: Any = {"type": "hogql", "key": "variables.score > 5"}
    assert compile_condition({"properties": [entry]}).matches(event(), {"score": 7})
    with pytest.raises(FilterError, match="`variables` is not available"):
        compile_filter({"properties": [entry]})


@given(
    expression=st.sampled_from(
        [
            "properties.a > 5",
            "lower(properties.a) = 'x'",
            "toDateTime(properties.a) > toDateTime(timestamp)",
            "properties.a.b[1].c = person.properties.a",
            "concat(properties.a, elements_chain_href) like '%a%'",
            "not properties.a",
        ]
    ),
    properties=st.dictionaries(st.sampled_from(["a", "$elements_chain"]), actuals),
    person=st.none() | st.dictionaries(st.just("a"), actuals),
)
def test_no_event_makes_an_expression_raise(expression: str, properties: Any, person: Any) -> None:
    compiled = said(expression)
    occurred = event(properties, person=person)
    (compared,) = compiled.explain(occurred)
    assert compared.passed is compiled.matches(occurred)
    assert compared.words()


def test_expressions_are_never_looked_up() -> None:
    assert dict(said("properties.repository = 'a/b'").exact) == {}
    assert dict(one("repository", "exact", "a/b").exact) == {"repository": {"a/b"}}
