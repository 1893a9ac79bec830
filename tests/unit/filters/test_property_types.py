from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters import ProjectFilters, compile_condition, compile_filter
from tests.unit.filters.events import NEGATIVE, actuals, event, holds, one, operators, operators_and_wishes, wishes

GROUPS: Any = {
    "company": {"id": "acme", "index": 0, "type": "company", "properties": {"plan": "pro"}},
    "project": {"id": "p7", "index": 2, "type": "project", "properties": {"size": 12}},
}
# Where a key may be read, and how an event that has a value there is made.
PLACES: dict[str, Any] = {
    "event": ({}, lambda value: event({"k": value})),
    "feature": ({}, lambda value: event({"k": value})),
    "person": ({}, lambda value: event({"k": "another"}, person={"k": value})),
    "group": (
        {"group_type_index": 3},
        lambda value: event({"k": "another"}, groups={"team": {"id": "t", "index": 3, "properties": {"k": value}}}),
    ),
}
places = st.sampled_from(sorted(PLACES))


def asked(kind: str, operator: str, wanted: Any) -> Any:
    return one("k", operator, wanted, type=kind, **PLACES[kind][0])


@given(place=places, question=operators_and_wishes, actual=actuals)
def test_a_value_compares_the_same_wherever_it_is_read(place: str, question: tuple[str, Any], actual: Any) -> None:
    operator, wanted = question
    compiled = asked(place, operator, wanted)
    occurred = PLACES[place][1](actual)
    assert compiled.matches(occurred) is holds(operator, wanted, actual)
    (compared,) = compiled.explain(occurred)
    assert compared.passed is compiled.matches(occurred)
    assert compared.actual == actual


@given(place=places, question=operators_and_wishes)
def test_what_an_event_does_not_carry_satisfies_only_the_negative_operators_d4(
    place: str, question: tuple[str, Any]
) -> None:
    operator, wanted = question
    for bare in (event({}), event({}, person={}, groups={"team": {"index": 3}, "x": "y", "z": {"index": 1}})):
        assert asked(place, operator, wanted).matches(bare) is (operator in NEGATIVE)


@given(question=operators_and_wishes, actual=actuals)
def test_negative_operators_are_the_complement_of_positive_ones(question: tuple[str, Any], actual: Any) -> None:
    operator, wanted = question
    positive = operator.replace("not_", "", 1) if operator in NEGATIVE else operator
    positive = {"is_not": "exact", "is_": "is_set"}.get(positive, positive)
    if positive != operator:
        assert holds(operator, wanted, actual) is not holds(positive, wanted, actual)


plain = st.booleans() | st.integers(-3, 12) | st.sampled_from(["", "5", "5.0", "true", "no", "a", "2026-03-29"])


@given(wanted=plain, actual=plain)
def test_equality_is_symmetric(wanted: Any, actual: Any) -> None:
    for operator in ("exact", "is_not", "in", "not_in"):
        assert holds(operator, wanted, actual) is holds(operator, actual, wanted)


@given(wanted=plain, actual=plain)
def test_what_is_more_than_another_is_that_other_being_less(wanted: Any, actual: Any) -> None:
    assert holds("gt", wanted, actual) is holds("lt", actual, wanted)
    assert holds("gte", wanted, actual) is holds("lte", actual, wanted)


@given(operator=operators, data=st.data(), actual=actuals)
def test_d5_a_list_is_any_of_its_values_and_none_of_them_for_a_negative_one(
    operator: str, data: st.DataObject, actual: Any
) -> None:
    wanted = data.draw(wishes(operator))
    if not isinstance(wanted, list) or "between" in operator:
        return
    single = [holds(operator, value, actual) for value in wanted]
    every = operator in NEGATIVE or operator == "semver_neq"
    assert holds(operator, wanted, actual) is (all if every else any)(single)


def test_a_person_is_read_apart_from_the_event() -> None:
    compiled = one("email", "icontains", "@acme.com", type="person")
    assert compiled.matches(event({"email": "x@other.com"}, person={"email": "ada@acme.com"}))
    assert not compiled.matches(event({"email": "ada@acme.com"}, person={"email": "x@other.com"}))
    assert not compiled.matches(event({"email": "ada@acme.com"}))
    (compared,) = compiled.explain(event())
    assert compared.words() == 'person.email is not set, wanted text that contains "@acme.com"'


def test_a_group_is_found_by_the_index_of_its_type() -> None:
    occurred = event(groups=GROUPS)
    assert one("plan", "exact", "pro", type="group", group_type_index=0).matches(occurred)
    assert one("size", "gt", 10, type="group", group_type_index=2).matches(occurred)
    assert not one("plan", "exact", "pro", type="group", group_type_index=1).matches(occurred)
    (compared,) = one("plan", "exact", "x", type="group", group_type_index=0).explain(occurred)
    assert compared.words() == 'group_0.plan is "pro", wanted exactly "x"'


@pytest.mark.parametrize("index", [None, -1, 5, "0", True, 1.0])
def test_a_group_filter_must_say_which_type(index: Any) -> None:
    with pytest.raises(FilterError, match="0 to 4"):
        one("plan", "exact", "pro", type="group", group_type_index=index)


def test_metadata_has_the_person_the_groups_and_the_elements_too() -> None:
    occurred = event({"$elements_chain": 'a:href="/x"', "$group_1": "old"}, person={}, groups=GROUPS)
    wanted = {"person_id": "p-1", "$group_0": "acme", "$group_1": "old", "elements_chain": 'a:href="/x"'}
    for key, value in wanted.items():
        assert one(key, "exact", value, type="event_metadata").matches(occurred), key
    assert one("$group_3", "is_not_set", type="event_metadata").matches(occurred)
    assert one("person_id", "is_not_set", type="event_metadata").matches(event())
    assert one("timestamp", "is_date_before", "2026-11-03", type="event_metadata").matches(occurred)


def test_an_empty_entry_asks_for_nothing() -> None:
    assert compile_filter({"properties": [{"type": "empty"}]}).matches(event())


def test_a_variable_is_read_from_the_run_and_has_no_value_in_a_trigger() -> None:
    entry: Any = {"key": "score", "operator": "gt", "value": 5, "type": "workflow_variable"}
    compiled = compile_condition({"properties": [entry]})
    assert compiled.matches(event({"score": 1}), {"score": "7"})
    assert not compiled.matches(event({"score": 9}), {"score": 3})
    assert not compiled.matches(event())
    (compared,) = compiled.explain(event(), {"score": 3})
    assert compared.words() == "variables.score is 3, wanted more than 5"
    with pytest.raises(FilterError) as caught:
        compile_filter({"properties": [entry]})
    assert caught.value.path == "filters.properties[0].type"
    assert "no run has begun" in caught.value.message


@pytest.mark.parametrize("key", ["events", "actions"])
def test_a_condition_names_no_events(key: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_condition({key: [{"id": "a"}], "properties": []}, path="conditions[0].filters")
    assert [fault.path for fault in caught.value.faults] == [f"conditions[0].filters.{key}"]


def test_a_condition_may_be_empty_and_must_be_an_object() -> None:
    assert compile_condition({"properties": [], "events": [], "bytecode": []}).matches(event())
    wrongs: list[Any] = [[], None, {"property": []}]
    for wrong in wrongs:
        with pytest.raises(FilterError):
            compile_condition(wrong)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"key": "email", "type": "person", "operator": "regex", "value": "("}, "value"),
        ({"key": "k", "value": "x", "negation": True}, "negation"),
        ({"key": "k", "value": "x", "group_type_idx": 0}, "group_type_idx"),
        ({"key": "css", "type": "element", "value": "x"}, "key"),
        ({"key": "selector", "type": "element", "value": "a", "operator": "icontains"}, "operator"),
        ({"key": "tag_name", "type": "element", "operator": "is_set"}, "operator"),
        ({"key": "selector", "type": "element", "value": "a:hover"}, "value"),
        ({"key": "$feature/x", "type": "flag", "value": True}, "type"),
        ({"key": "id", "type": "cohort", "value": 5}, ""),
        ({"key": "id", "type": "cohort", "value": 5, "operator": "gt"}, "operator"),
        ({"key": "properties.x +", "type": "hogql"}, "key"),
        ({"key": "secrets.x", "type": "hogql"}, "key"),
        ({"key": " ", "type": "hogql"}, "key"),
        ({"key": "properties.x", "type": "hogql", "operator": "gt", "value": 1}, "operator"),
    ],
)
def test_ui_06_what_cannot_be_evaluated_is_refused_where_it_stands(entry: Any, path: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter({"properties": [{"key": "ok", "value": 1}, entry]})
    (fault,) = caught.value.faults
    assert fault.path == "filters.properties[1]" + (f".{path}" if path else "")
    assert fault.hint


@given(
    properties=st.dictionaries(st.sampled_from(["a", "b", "$elements_chain", "$elements", "$group_0"]), actuals),
    person=st.none() | st.dictionaries(st.sampled_from(["a"]), actuals),
    groups=st.dictionaries(st.sampled_from(["x", "y"]), actuals | st.just({"index": 0, "properties": 5})),
    kind=st.sampled_from(["person", "element", "event_metadata", "group", "event"]),
    question=operators_and_wishes,
)
def test_no_event_makes_a_filter_raise(properties: Any, person: Any, groups: Any, kind: str, question: Any) -> None:
    operator, wanted = question
    key = {"element": "text", "event_metadata": "$group_0"}.get(kind, "a")
    compiled = one(key, operator, wanted, type=kind, group_type_index=0)
    occurred = event(properties, person=person, groups=groups)
    assert compiled.matches(occurred) is all(one.passed for one in compiled.explain(occurred))
    assert [one.words() for one in compiled.explain(occurred)]


def test_workflows_of_one_project_share_what_they_ask_and_other_projects_do_not() -> None:
    berlin, other = ProjectFilters(), ProjectFilters()

    def asks(operator: str, project: ProjectFilters) -> Any:
        return one("p", operator, "2026-01-01", project).predicates[0]

    assert asks("is_date_before", berlin) is asks("is_date_before", berlin)
    assert asks("is_date_before", berlin) is not asks("is_date_before", other)
    assert asks("exact", berlin) is asks("exact", other)


def test_a_filter_is_shared_for_as_long_as_anybody_asks_it_however_many_others_there_are() -> None:
    asked = [one("repository", "exact", f"a/{number}") for number in range(1500)]
    assert all(
        one("repository", "exact", f"a/{number}").predicates[0] is before.predicates[0]
        for number, before in enumerate(asked)
    )


def test_in_may_be_looked_up_like_exact_and_what_is_read_elsewhere_may_not() -> None:
    assert dict(one("repository", "in", ["Acme/Widgets"]).exact) == {"repository": {"acme/widgets"}}
    assert dict(one("repository", "exact", "a/b", type="person").exact) == {}
    assert dict(one("repository", "not_in", "a/b").exact) == {}
    assert dict(one("repository", "regex", "a/b").exact) == {}
