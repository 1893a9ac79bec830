from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.expressions.coercion import equals, to_text
from loops.filters import compile_filter
from loops.filters.operators import OPERATORS
from tests.unit.filters.events import GITHUB, NEGATIVE, actuals, event, holds, one, wishes

plain = (
    st.booleans()
    | st.integers(-3, 12)
    | st.floats(-2, 2)
    | st.sampled_from(["", "5", "5.0", "true", "false", "a", "A", "null"])
)


@pytest.mark.parametrize(
    ("wanted", "actual", "expected"),
    [
        pytest.param("5", 5, True, id="d1"),
        pytest.param(["5", "6"], 5, True, id="d2-by-D5"),
        pytest.param("true", True, True, id="d3"),
        pytest.param(["true", "x"], True, True, id="d4-by-D5"),
        pytest.param(5, "5", True, id="number against text"),
        pytest.param("opened", "Opened", False, id="case counts"),
        pytest.param(["a", 5], "a", True, id="mixed list"),
        pytest.param(["a", 5], "5", True, id="mixed list by coercion"),
        pytest.param("a", ["a"], False, id="a list equals nothing"),
        pytest.param("a", {"a": "a"}, False, id="an object equals nothing"),
    ],
)
def test_exact_compares_with_coercion_and_a_list_means_any_of_it(wanted: Any, actual: Any, expected: bool) -> None:
    assert holds("exact", wanted, actual) is expected
    assert holds("is_not", wanted, actual) is not expected


def test_an_operator_that_is_left_out_or_null_is_exact() -> None:
    assert one("p", None, "x").matches(event({"p": "x"}))
    assert not one("p", None, "x").matches(event({"p": "y"}))
    assert compile_filter({"properties": [{"key": "p", "value": "x", "operator": None}]}).matches(event({"p": "x"}))


@pytest.mark.parametrize(
    ("wanted", "actual", "expected"),
    [
        pytest.param("fire", "The database is on FIRE", True, id="case does not count"),
        pytest.param("FIRE", "on fire", True, id="nor in the wish"),
        pytest.param(["x", "fire"], "on fire", True, id="any of a list"),
        pytest.param(["x", "y"], "on fire", False, id="none of a list"),
        pytest.param("a_c", "abc", False, id="d11-by-D7"),
        pytest.param("a%c", "abc", False, id="D7-percent"),
        pytest.param("a_c", "xa_cx", True, id="D7-underscore"),
        pytest.param(["a_c", "zz"], "abc", False, id="d12"),
        pytest.param("ul", None, False, id="d10-by-D4"),
        pytest.param("4", 42, True, id="numbers as text"),
        pytest.param(4, "no 4", True, id="a number in text"),
        pytest.param("TRUE", True, True, id="booleans as text"),
    ],
)
def test_icontains_looks_for_plain_text_without_case(wanted: Any, actual: Any, expected: bool) -> None:
    assert holds("icontains", wanted, actual) is expected


@pytest.mark.parametrize("actual", ["", 0, False, "x", [], {}], ids=repr)
def test_whatever_is_not_null_is_set_d15(actual: Any) -> None:
    assert holds("is_set", None, actual)
    assert not holds("is_not_set", "is_not_set", actual)


def test_null_and_absent_are_the_same() -> None:
    for properties in ({}, {"p": None}):
        assert not one("p", "is_set", ["x"]).matches(event(properties))
        assert one("p", "is_not_set", "is_not_set").matches(event(properties))


@pytest.mark.parametrize("operator", sorted(OPERATORS))
@settings(max_examples=20)
@given(asked=st.data())
def test_a_missing_value_satisfies_only_the_negative_operators(operator: str, asked: st.DataObject) -> None:
    """D4, and d5: `is_not` "x" on a missing property holds."""
    wanted = asked.draw(wishes(operator))
    assert holds(operator, wanted, None) is (operator in NEGATIVE)
    assert one("p", operator, wanted).matches(event({})) is (operator in NEGATIVE)


@given(wanted=st.lists(plain, min_size=1, max_size=4), actual=actuals)
def test_a_list_is_any_of_its_single_values_and_a_negation_none_of_them(wanted: list[Any], actual: Any) -> None:
    assert holds("exact", wanted, actual) is any(holds("exact", value, actual) for value in wanted)
    assert holds("icontains", wanted, actual) is any(holds("icontains", value, actual) for value in wanted)
    assert holds("is_not", wanted, actual) is not holds("exact", wanted, actual)


@given(wanted=plain, actual=actuals)
def test_single_values_compare_as_the_expression_language_does(wanted: Any, actual: Any) -> None:
    assert holds("exact", wanted, actual) is (actual is not None and equals(actual, wanted))
    expected = actual is not None and to_text(wanted).lower() in to_text(actual).lower()
    assert holds("icontains", wanted, actual) is expected


@pytest.mark.parametrize("wanted", ["acme/widgets", "Acme/Widgets", ["x/y", "ACME/WIDGETS"]], ids=repr)
@pytest.mark.parametrize("actual", ["acme/widgets", "Acme/Widgets"])
def test_gh_17_repositories_compare_without_case(wanted: Any, actual: str) -> None:
    assert one("repository", "exact", wanted).matches(event({"repository": actual}))
    assert not one("repository", "is_not", wanted).matches(event({"repository": actual}))
    assert not one("sender", "exact", "Ada").matches(event({"sender": "ada"})), "only repositories do"


@pytest.mark.parametrize(
    ("properties", "actual", "expected"),
    [
        pytest.param(
            [("repository", ["PostHog/posthog"], "exact")], {"repository": "PostHog/posthog"}, True, id="case-33"
        ),
        pytest.param(
            [("repository", ["PostHog/posthog"], "exact")], {"repository": "PostHog/other"}, False, id="case-34"
        ),
        pytest.param(
            [("event_type", ["issues", "issue_comment"], "exact")], {"event_type": "issues"}, True, id="case-35"
        ),
        pytest.param(
            [("event_type", ["issues", "issue_comment"], "exact")], {"event_type": "push"}, False, id="case-36"
        ),
        pytest.param([("actor_access", ["write"], "exact")], {"actor_access": "write"}, True, id="case-37"),
        pytest.param([("actor_access", ["write"], "exact")], {"actor_access": "read"}, False, id="case-38"),
        pytest.param([("bot_sender", "is_not_set", "is_not_set")], {"bot_sender": None}, True, id="case-39"),
        pytest.param(
            [("bot_sender", "is_not_set", "is_not_set")], {"bot_sender": "dependabot[bot]"}, False, id="case-40"
        ),
        pytest.param([("sender", ["ada", "bob"], "exact")], {"sender": "bob"}, True, id="case-41"),
        pytest.param([("sender", ["ada", "bob"], "exact")], {"sender": "eve"}, False, id="case-42"),
        pytest.param([("title", ["fire"], "icontains")], {"title": "The database is on fire"}, True, id="case-43"),
        pytest.param([("title", ["fire"], "icontains")], {"title": "Typo in the docs"}, False, id="case-44"),
        pytest.param(
            [("repository", ["a/b"], "exact"), ("actor_access", ["write"], "exact")],
            {"repository": "a/b", "actor_access": "write"},
            True,
            id="case-45",
        ),
        pytest.param(
            [("repository", ["a/b"], "exact"), ("actor_access", ["write"], "exact")],
            {"repository": "a/b", "actor_access": "read"},
            False,
            id="case-45 a reader",
        ),
    ],
)
def test_public_cases_of_github_filters(
    properties: list[tuple[str, Any, str]], actual: dict[str, Any], expected: bool
) -> None:
    entries: list[Any] = [
        {"key": key, "value": value, "operator": operator, "type": "event"} for key, value, operator in properties
    ]
    events: list[Any] = [{"id": GITHUB, "type": "events"}]
    compiled = compile_filter({"source": "internal-events", "events": events, "properties": entries})
    assert compiled.matches(event(actual)) is expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        pytest.param({"foo.bar": "baz"}, True, id="case-77"),
        pytest.param({"foo": {"bar": "baz"}}, False, id="case-78"),
    ],
)
def test_a_dotted_key_is_one_flat_key(properties: dict[str, Any], expected: bool) -> None:
    assert one("foo.bar", "exact", "baz").matches(event(properties, name="$pageview")) is expected
