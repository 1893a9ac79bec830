from typing import Any

import pytest

from loops.errors import FilterError
from loops.filters import compile_filter
from tests.unit.filters.events import GITHUB, event


def faults(filters: Any, **more: Any) -> dict[str, str]:
    with pytest.raises(FilterError) as caught:
        compile_filter(filters, **more)
    return {fault.path: f"{fault.message} ({fault.hint})" for fault in caught.value.faults}


def entry(**more: Any) -> dict[str, Any]:
    return {"properties": [{"key": "p", "value": "x", **more}]}


@pytest.mark.parametrize(
    "filters",
    [
        pytest.param({}, id="case-71"),
        pytest.param({"events": [{"id": None, "type": "events"}]}, id="case-72"),
        pytest.param({"bytecode": ["_H", 1]}, id="case-84"),
        pytest.param({"events": [], "properties": [], "actions": [], "filter_test_accounts": False}, id="all empty"),
        pytest.param({"events": None, "properties": None, "source": None}, id="all null"),
    ],
)
def test_nothing_asked_for_lets_every_event_pass(filters: dict[str, Any]) -> None:
    compiled = compile_filter(filters)
    assert compiled.event_names is None
    assert compiled.matches(event({"p": 1}))
    assert compiled.matches(event(name="$pageview"))


def test_cases_81_and_82_the_event_has_to_be_one_of_those_named() -> None:
    compiled = compile_filter({"events": [{"id": "a"}, {"id": "b", "name": "B", "order": 1, "type": "events"}]})
    assert compiled.event_names == frozenset({"a", "b"})
    assert compiled.matches(event(name="b"))
    assert not compiled.matches(event(name="c"))


def test_case_74_properties_are_anded_and_events_ored_each_with_its_own() -> None:
    compiled = compile_filter(
        {
            "properties": [{"key": "env", "value": "live"}],
            "events": [
                {"id": "paid", "properties": [{"key": "plan", "value": ["pro", "team"]}]},
                {"id": "signed up", "properties": []},
            ],
        }
    )
    assert compiled.matches(event({"env": "live", "plan": "pro"}, name="paid"))
    assert not compiled.matches(event({"env": "test", "plan": "pro"}, name="paid"))
    assert not compiled.matches(event({"env": "live", "plan": "free"}, name="paid"))
    assert compiled.matches(event({"env": "live"}, name="signed up"))
    assert not compiled.matches(event({"env": "live"}, name="other"))


def test_one_name_may_stand_twice_with_different_properties() -> None:
    wanted: list[Any] = [{"id": "paid", "properties": [{"key": "plan", "value": plan}]} for plan in ("pro", "team")]
    compiled = compile_filter({"events": wanted})
    assert [compiled.matches(event({"plan": plan}, name="paid")) for plan in ("pro", "team", "free")] == [1, 1, 0]


def test_every_event_may_have_properties_of_its_own() -> None:
    compiled = compile_filter({"events": [{"id": None, "properties": [{"key": "p", "value": "x"}]}, {"id": "b"}]})
    assert compiled.event_names is None
    assert compiled.matches(event({"p": "x"}, name="a"))
    assert compiled.matches(event({"p": "y"}, name="b"))
    assert not compiled.matches(event({"p": "y"}, name="a"))


def test_metadata_is_read_from_the_event_itself() -> None:
    def matches(key: str, value: str, operator: str = "exact") -> bool:
        wanted: Any = {"key": key, "value": value, "operator": operator, "type": "event_metadata"}
        return compile_filter({"properties": [wanted]}).matches(event({key: "a property"}))

    assert matches("event", GITHUB)
    assert matches("distinct_id", "ada")
    assert matches("uuid", "0c7a")
    assert matches("timestamp", "2026-11-02T09:00", "icontains")
    assert not matches("event", "a property")


def test_exact_names_what_an_index_may_look_up() -> None:
    compiled = compile_filter(
        {
            "events": [{"id": GITHUB, "properties": [{"key": "action", "value": "opened"}]}],
            "properties": [
                {"key": "repository", "value": ["Acme/Widgets", "acme/TOOLS"]},
                {"key": "event_type", "value": ["issues", "push"]},
                {"key": "event_type", "value": ["issues", "pull_request"]},
                {"key": "number", "value": 5},
                {"key": "size", "value": ["5", 6]},
                {"key": "title", "value": "fire", "operator": "icontains"},
                {"key": "sender", "value": "eve", "operator": "is_not"},
                {"key": "distinct_id", "value": "ada", "type": "event_metadata"},
            ],
        }
    )
    assert dict(compiled.exact) == {
        "repository": {"acme/widgets", "acme/tools"},
        "event_type": {"issues"},
        "action": {"opened"},
    }


def test_filters_that_exclude_each_other_stay_reachable_for_an_explanation() -> None:
    compiled = compile_filter({"properties": [{"key": "p", "value": "x"}, {"key": "p", "value": "y"}]})
    assert compiled.exact["p"] == {"x"}
    assert not compiled.matches(event({"p": "x"}))


def test_alternatives_are_not_looked_up() -> None:
    wanted: list[Any] = [{"id": name, "properties": [{"key": "p", "value": name}]} for name in ("a", "b")]
    assert dict(compile_filter({"events": wanted}).exact) == {}


def test_the_same_question_is_one_predicate() -> None:
    first, second = (compile_filter({"properties": [{"key": "p", "value": ["x"]}]}) for _ in range(2))
    assert first.predicates == second.predicates
    assert first.predicates != compile_filter({"properties": [{"key": "p", "value": ["y"]}]}).predicates


def test_every_fault_is_told_with_its_path_and_what_mends_it() -> None:
    told = faults(
        {
            "source": "person-updates",
            "actions": [{"id": "1"}],
            "filter_test_accounts": "yes",
            "propertys": [],
            "events": [{"type": "actions", "id": "a"}, {"name": "a"}, {"id": " "}, "a", {"id": 3}],
            "properties": [{"value": "x"}, {"key": "q", "operater": "exact", "value": "x"}],
        },
        path="trigger.filters",
    )
    assert list(told) == [
        "trigger.filters.propertys",
        "trigger.filters.source",
        "trigger.filters.filter_test_accounts",
        "trigger.filters.properties[0].key",
        "trigger.filters.properties[1].operater",
        "trigger.filters.events[3]",
        "trigger.filters.events[0].type",
        "trigger.filters.events[1]",
        "trigger.filters.events[2].id",
        "trigger.filters.events[4].id",
        "trigger.filters.actions[0]",
    ]
    assert "did you mean properties?" in told["trigger.filters.propertys"]
    assert "did you mean operator?" in told["trigger.filters.properties[1].operater"]
    assert "null for every event" in told["trigger.filters.events[1]"]


def test_faults_in_an_events_own_properties_have_its_path() -> None:
    assert list(faults({"events": [{"id": "a", "properties": [{"key": "p", "value": []}]}]})) == [
        "filters.events[0].properties[0].value"
    ]


@pytest.mark.parametrize("operator", ["equals", "flag_evaluates_to", "", 5, ["exact"]])
def test_an_operator_that_is_not_there_is_refused_with_those_that_are(operator: Any) -> None:
    told = faults(entry(operator=operator))["filters.properties[0].operator"]
    assert "is not a supported operator" in told
    assert "exact, is_not, in, not_in, is_set" in told
    assert "did you mean regex?" in faults(entry(operator="regx"))["filters.properties[0].operator"]


@pytest.mark.parametrize("kind", ["flag", "behavioral", "static-cohort", "session", "x", 5])
def test_a_property_type_that_is_not_there_is_refused(kind: Any) -> None:
    told = faults(entry(type=kind))["filters.properties[0].type"]
    assert "are not supported" in told
    assert "filter by" in told or "supported: event, event_metadata, feature, person, group" in told


def test_metadata_that_no_event_has_is_refused() -> None:
    told = faults(entry(key="repository", type="event_metadata"))["filters.properties[0].key"]
    assert "event, distinct_id, timestamp, uuid, person_id" in told


@pytest.mark.parametrize("operator", ["exact", "not_in", "icontains", "gt", "regex", "semver_neq"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param([], "empty list", id="d16"),
        (None, "has no value"),
        (["x", None], "holds null"),
        ({"a": 1}, "must be a string"),
        ([["x"]], "must be a string"),
        (float("nan"), "finite"),
        ([float("inf")], "finite"),
    ],
)
def test_a_value_that_nothing_could_ever_equal_is_refused(operator: str, value: Any, reason: str) -> None:
    assert reason in faults(entry(operator=operator, value=value))["filters.properties[0].value"]


@pytest.mark.parametrize("operator", ["is_set", "is_not_set"])
def test_operators_that_want_no_value_take_any(operator: str) -> None:
    for value in (None, [], ["x"], {"a": 1}, operator):
        compile_filter(entry(operator=operator, value=value))


@pytest.mark.parametrize("filters", [[], "x", None, 5])
def test_filters_that_are_no_object_are_refused(filters: Any) -> None:
    assert "must be an object" in faults(filters)["filters"]


@pytest.mark.parametrize(
    ("filters", "path"),
    [
        ({"properties": {"type": "AND"}}, "filters.properties"),
        ({"properties": {"type": "XOR", "values": []}}, "filters.properties.type"),
        ({"properties": [5]}, "filters.properties[0]"),
        ({"events": "a"}, "filters.events"),
        ({"properties": [{"key": "", "value": 1}]}, "filters.properties[0].key"),
        ({"properties": [{"key": 5, "value": 1}]}, "filters.properties[0].key"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_where_they_are(filters: Any, path: str) -> None:
    assert list(faults(filters)) == [path]
