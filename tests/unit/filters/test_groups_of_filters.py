"""Groups of filters, PostHog's actions, test accounts and cohorts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters import Filter, ProjectFilters, compile_filter
from tests.unit.filters.events import event, one

INTERNAL: Any = {
    "name": "Internal users",
    "type": "OR",
    "values": [
        {
            "type": "AND",
            "values": [{"key": "email", "type": "person", "operator": "icontains", "value": "@acme.com"}],
        },
        {"key": "role", "type": "person", "operator": "exact", "value": ["tester"]},
    ],
}
OUTSIDE: Any = {"key": "id", "type": "cohort", "value": 7, "operator": "not_in"}


def compiled(project: ProjectFilters | None = None, **filters: Any) -> Filter:
    return compile_filter(filters, project=project or ProjectFilters())


def faults(project: ProjectFilters | None = None, **filters: Any) -> dict[str, str]:
    with pytest.raises(FilterError) as caught:
        compiled(project, **filters)
    return {fault.path: f"{fault.message} ({fault.hint})" for fault in caught.value.faults}


def equal(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def group(kind: str, *values: Any) -> Any:
    return {"type": kind, "values": list(values)}


groups = st.recursive(
    st.builds(equal, st.sampled_from("ab"), st.integers(0, 1)),
    lambda inner: st.builds(lambda kind, values: group(kind, *values), st.sampled_from(["AND", "OR"]), st.lists(inner)),
    max_leaves=8,
)


def naive(entry: Any, properties: dict[str, Any]) -> bool:
    if "values" not in entry:
        return bool(properties.get(entry["key"]) == entry["value"])
    results = [naive(one, properties) for one in entry["values"]]
    return all(results) if entry["type"] == "AND" or not results else any(results)


@given(entries=st.lists(groups, max_size=3), a=st.integers(0, 1), b=st.integers(0, 1))
def test_groups_are_ands_and_ors_of_what_is_in_them(entries: list[Any], a: int, b: int) -> None:
    filtered = compiled(properties=entries)
    occurred = event({"a": a, "b": b})
    assert filtered.matches(occurred) is all(naive(entry, {"a": a, "b": b}) for entry in entries)
    assert filtered.matches(occurred) is all(one.passed for one in filtered.explain(occurred))


def test_properties_may_be_one_group() -> None:
    filtered = compiled(properties=group("OR", equal("a", 1), equal("b", 1)))
    assert filtered.matches(event({"b": 1}))
    assert not filtered.matches(event({"a": 2}))
    assert compiled(properties=group("AND")).matches(event())


def test_what_a_group_of_and_asks_may_be_looked_up_and_an_or_may_not() -> None:
    assert dict(compiled(properties=group("AND", equal("a", "x"), group("OR", equal("b", "y")))).exact) == {"a": {"x"}}


def test_of_a_group_the_branch_that_held_is_told_and_else_every_one() -> None:
    filtered = compiled(properties=[group("OR", equal("a", 1), group("AND", equal("a", 2), equal("b", 2)))])
    assert [one.expected for one in filtered.explain(event({"a": 2, "b": 2}))] == [2, 2]
    assert [(one.key, one.passed) for one in filtered.explain(event({"a": 2}))] == [
        ("a", False),
        ("a", True),
        ("b", False),
    ]


def test_faults_in_a_group_have_their_place_in_it() -> None:
    deep: Any = equal("a", 1)
    for _ in range(30):
        deep = group("AND", deep)
    told = faults(properties=[group("OR", equal("a", []), group("NOT", equal("a", 1)), {"x": 1, "values": []}), deep])
    assert list(told)[:4] == [
        "filters.properties[0].values[0].value",
        "filters.properties[0].values[1].type",
        "filters.properties[0].values[2].x",
        "filters.properties[0].values[2].type",
    ]
    assert "inside 20 others" in list(told.values())[-1]


STEPS: Any = {
    "name": "Bought",
    "steps": [
        {"event": "paid", "properties": [equal("plan", ["pro", "team"])], "url": None},
        {"event": "$autocapture", "text": "Buy", "tag_name": "button", "selector": "form > button", "href": ""},
        {"event": "$pageview", "url": "/thanks", "url_matching": "contains"},
        {"event": "$pageview", "url": "^https://[^/]+/done$", "url_matching": "regex"},
        {"event": "$pageview", "url": "https://x.io/exact", "url_matching": "exact"},
    ],
}
SHOP = ProjectFilters(actions={"12": STEPS})


@pytest.mark.parametrize(
    ("name", "properties", "expected"),
    [
        ("paid", {"plan": "team"}, True),
        ("paid", {"plan": "free"}, False),
        ("$autocapture", {"$elements_chain": 'button:text="Buy";form'}, True),
        ("$autocapture", {"$elements_chain": 'button:text="Sell";form'}, False),
        ("$autocapture", {"$elements_chain": 'button:text="Buy";div'}, False),
        ("$pageview", {"$current_url": "https://x.io/thanks?a=1"}, True),
        ("$pageview", {"$current_url": "https://x.io/done"}, True),
        ("$pageview", {"$current_url": "https://x.io/done/2"}, False),
        ("$pageview", {"$current_url": "https://x.io/exact"}, True),
        ("$pageview", {}, False),
        ("left", {"plan": "pro"}, False),
    ],
)
@pytest.mark.parametrize("number", [12, "12"])
def test_an_action_is_any_of_its_steps(number: Any, name: str, properties: dict[str, Any], expected: bool) -> None:
    saved = compiled(SHOP, actions=[{"id": number, "name": "Bought", "type": "actions", "order": 0}])
    written = compiled(actions=[{"id": number, "type": "actions", "steps": STEPS["steps"]}])
    occurred = event(properties, name=name)
    assert saved.matches(occurred) is expected
    assert written.matches(occurred) is expected
    assert all(one.passed for one in saved.explain(occurred)) is expected


def test_case_83_an_event_that_is_none_of_those_named_may_be_an_action() -> None:
    filtered = compiled(SHOP, events=[{"id": "signed up"}], actions=[{"id": 12}])
    assert filtered.matches(event({"plan": "pro"}, name="paid"))
    assert filtered.matches(event(name="signed up"))
    assert not filtered.matches(event({"plan": "pro"}, name="other"))


def test_case_74_test_accounts_and_properties_and_one_of_events_and_actions_all_count() -> None:
    project = ProjectFilters(
        actions={"12": STEPS},
        test_accounts=[{"key": "email", "type": "person", "operator": "not_icontains", "value": "@acme.com"}],
    )
    filtered = compiled(
        project,
        filter_test_accounts=True,
        properties=[equal("env", "live")],
        events=[{"id": "signed up", "type": "events", "properties": [equal("via", "web")]}],
        actions=[{"id": 12, "type": "actions", "properties": [equal("currency", "EUR")]}],
    )
    signed: Any = {"env": "live", "via": "web"}
    bought: Any = {"env": "live", "plan": "pro", "currency": "EUR"}
    assert filtered.matches(event(signed, name="signed up"))
    assert filtered.matches(event(signed, name="signed up", person={"email": "x@other.com"}))
    assert filtered.matches(event(bought, name="paid", person={}))
    assert not filtered.matches(event(signed, name="signed up", person={"email": "x@acme.com"}))
    assert not filtered.matches(event({**signed, "env": "test"}, name="signed up"))
    assert not filtered.matches(event({**signed, "via": "app"}, name="signed up"))
    assert not filtered.matches(event({**bought, "currency": "USD"}, name="paid"))
    assert not filtered.matches(event({**bought, "plan": "free"}, name="paid"))


@pytest.mark.parametrize(
    ("entry", "path", "words"),
    [
        ({"id": 13}, "filters.actions[0]", "the action 13 is not known here"),
        ({"type": "actions"}, "filters.actions[0]", "is not known here"),
        ({"id": 12, "type": "events"}, "filters.actions[0].type", 'must be "actions"'),
        ({"id": 12, "step": []}, "filters.actions[0].step", "did you mean steps"),
        ({"id": 1, "steps": []}, "filters.actions[0].steps", "every event would be the action"),
        ({"id": 1, "steps": [{"event": " "}]}, "filters.actions[0].steps[0].event", "must be the name of an event"),
        (
            {"id": 1, "steps": [{"url": "(", "url_matching": "regex"}]},
            "filters.actions[0].steps[0].url",
            "missing )",
        ),
        (
            {"id": 1, "steps": [{"url": "x", "url_matching": "like"}]},
            "filters.actions[0].steps[0].url_matching",
            "exact, contains, regex",
        ),
        ({"id": 1, "steps": [{"selector": "a:hover"}]}, "filters.actions[0].steps[0].selector", "no selector"),
        ({"id": 1, "steps": [{"text": 5}]}, "filters.actions[0].steps[0].text", "must be text"),
        (
            {"id": 1, "steps": [{"event": "a", "properties": [equal("a", [])]}]},
            "filters.actions[0].steps[0].properties[0].value",
            "empty list",
        ),
    ],
)
def test_an_action_that_cannot_be_evaluated_is_refused(entry: Any, path: str, words: str) -> None:
    told = faults(SHOP, actions=[entry])
    assert list(told) == [path]
    assert words in told[path]


def test_test_accounts_are_held_back_only_where_it_is_asked_for() -> None:
    project = ProjectFilters(test_accounts=[{"key": "$host", "operator": "not_regex", "value": "^localhost($|:)"}])
    local = event({"$host": "localhost:8000"})
    assert not compiled(project, filter_test_accounts=True).matches(local)
    assert compiled(project, filter_test_accounts=False).matches(local)
    assert compiled(project).matches(local)
    assert compiled(filter_test_accounts=True).matches(local), "a project without such filters has no test accounts"
    (compared,) = compiled(project, filter_test_accounts=True).explain(local)
    assert compared.words() == '$host is "localhost:8000", wanted text that does not match "^localhost($|:)"'


def test_case_80_a_cohort_of_person_filters_is_written_out_and_may_be_negated() -> None:
    project = ProjectFilters(test_accounts=[OUTSIDE], cohorts={"7": INTERNAL})
    filtered = compiled(project, filter_test_accounts=True)
    assert filtered.matches(event(person={"email": "test@other.com"}))
    assert filtered.matches(event())
    assert not filtered.matches(event(person={"email": "ada@acme.com"}))
    assert not filtered.matches(event(person={"email": "x@other.com", "role": "tester"}))
    (compared,) = filtered.explain(event(person={"role": "tester"}))
    assert compared.words() == 'cohort is "Internal users", wanted anything but "Internal users"'


@pytest.mark.parametrize(
    ("entry", "inside"),
    [
        ({"operator": "in"}, True),
        ({}, True),
        ({"operator": "not_in"}, False),
        ({"negation": True}, False),
        ({"operator": "not_in", "negation": True}, True),
        ({"value": ["7"]}, True),
    ],
)
def test_membership_in_a_cohort_may_be_asked_either_way(entry: Any, inside: bool) -> None:
    project = ProjectFilters(cohorts={"7": INTERNAL})
    filtered = compiled(project, properties=[{"key": "id", "type": "cohort", "value": 7, **entry}])
    assert filtered.matches(event(person={"role": "tester"})) is inside
    assert filtered.matches(event(person={"role": "guest"})) is not inside
    assert [one.passed for one in filtered.explain(event(person={"role": "tester"}))] == [inside]


@pytest.mark.parametrize(
    ("cohort", "path"),
    [
        (None, "project.test_accounts[0]"),
        ({"name": "Static"}, "project.cohorts.7"),
        (group("OR", {"key": "paid", "type": "behavioral"}), "project.cohorts.7.values[0].type"),
        (group("OR", group("AND", equal("a", 1))), "project.cohorts.7.values[0].values[0].type"),
        (group("OR", {"key": "a", "type": "person", "value": []}), "project.cohorts.7.values[0].value"),
    ],
)
def test_a_cohort_that_an_event_cannot_answer_is_refused(cohort: Any, path: str) -> None:
    cohorts = {} if cohort is None else {"7": cohort}
    project = ProjectFilters(test_accounts=[OUTSIDE], cohorts=cohorts)
    assert list(faults(project, filter_test_accounts=True)) == [path]


@pytest.mark.parametrize("value", ["true", 1, "yes", []])
def test_filter_test_accounts_is_true_or_false(value: Any) -> None:
    assert list(faults(filter_test_accounts=value)) == ["filters.filter_test_accounts"]


def test_one_filter_that_is_wrong_hides_no_other() -> None:
    told = faults(properties=[equal("a", []), {"key": "b", "operator": "regex", "value": "("}], actions=[{"id": 1}])
    assert len(told) == 3
    assert one("a", "exact", 1).matches(event({"a": 1}))
