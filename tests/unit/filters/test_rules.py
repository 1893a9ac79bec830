"""Every operator against its rule written out once more, and whole filters against how their parts combine."""

import operator as compare
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.filters import ProjectFilters, compile_filter
from tests.unit.filters.events import event, holds, one

# Values small enough that whatever they mean can be listed. A blank text is the number 0 to `exact`, and none to `gt`.
NUMBERS = {"5": 5, "5.0": 5, "10": 10, "-1": -1}
BLANKS = {"", " "}
DATES = {"2026-03-29": 3, "2026-03-29T00:00:00Z": 3, "2026-03-28T23:30:00+02:00": 1, "2026-03-29 01:00": 4}
WORDS = {"true", "false", "no", "a", "A", "ba", "null", "a_c", "abc", "%"}
PRINTED = {"True": "true", "False": "false", "5.0": "5"}

texts = st.sampled_from(sorted({*NUMBERS, *BLANKS, *DATES, *WORDS}))
plain = st.booleans() | st.sampled_from([-1, 0, 1, 5, 5.0, 10, 2.5]) | texts
actuals = plain | st.none() | st.sampled_from([[], ["a"], {}, {"a": 1}])


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else PRINTED.get(repr(value), repr(value))


def equal(actual: Any, wanted: Any) -> bool:
    """Numbers are bridged to texts and booleans, booleans to texts; nothing equals a list, an object or null."""
    if actual is None or isinstance(actual, list | dict):
        return False
    if isinstance(actual, str) and isinstance(wanted, str):
        return actual == wanted
    for one_side, other in ((actual, wanted), (wanted, actual)):
        if isinstance(one_side, str):
            if isinstance(other, bool):
                return (one_side == "true") is other
            return (one_side in BLANKS and other == 0) or (one_side in NUMBERS and NUMBERS[one_side] == other)
    return bool(actual == wanted)


def ordered(rule: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """D6: as numbers where both are, as dates where both are, else as text; what has no order passes nothing (D4)."""

    def number(value: Any) -> Any:
        return NUMBERS.get(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value

    def holds_between(actual: Any, wanted: Any) -> bool:
        if actual is None or isinstance(actual, list | dict):
            return False
        if number(actual) is not None and number(wanted) is not None:
            return rule(number(actual), number(wanted))
        if actual in DATES and wanted in DATES:
            return rule(DATES[actual], DATES[wanted])
        return rule(text_of(actual), text_of(wanted))

    return holds_between


def contains(actual: Any, wanted: Any) -> bool:
    """D7: nothing in the wish is a wildcard."""
    return actual is not None and text_of(wanted).lower() in text_of(actual).lower()


def matches(actual: Any, wanted: Any) -> bool:
    """Anywhere in the text; never in an empty one, nor in what is missing."""
    return actual is not None and text_of(actual) != "" and re.search(wanted, text_of(actual)) is not None


RULES: dict[str, Callable[[Any, Any], bool]] = {
    "exact": equal,
    "in": equal,
    "icontains": contains,
    "icontains_multi": contains,
    "gt": ordered(compare.gt),
    "gte": ordered(compare.ge),
    "min": ordered(compare.ge),
    "lt": ordered(compare.lt),
    "lte": ordered(compare.le),
    "max": ordered(compare.le),
    "regex": matches,
}
NEGATIONS = {
    "is_not": "exact",
    "not_in": "in",
    "not_icontains": "icontains",
    "not_icontains_multi": "icontains_multi",
    "not_regex": "regex",
}
patterns = st.sampled_from(["a", "^5", "e$", "b|n", r"\d\d", "(?i)A", "[^a]"])


@pytest.mark.parametrize("operator", sorted({*RULES, *NEGATIONS}))
@settings(max_examples=40)
@given(asked=st.data(), actual=actuals)
def test_an_operator_holds_as_its_rule_says_for_a_value_and_for_any_of_a_list(
    operator: str, asked: st.DataObject, actual: Any
) -> None:
    wish = patterns if operator.endswith("regex") else plain
    wanted = asked.draw(wish | st.lists(wish, min_size=1, max_size=3))
    rule = RULES[NEGATIONS.get(operator, operator)]
    expected = any(rule(actual, value) for value in (wanted if isinstance(wanted, list) else [wanted]))
    assert holds(operator, wanted, actual) is (expected is not (operator in NEGATIONS))
    if actual is None:
        assert one("p", operator, wanted).matches(event({})) is (operator in NEGATIONS)


@given(actual=actuals, low=st.integers(-2, 6), size=st.integers(0, 6), as_text=st.booleans())
def test_between_takes_numbers_and_its_ends_and_not_between_all_else(
    actual: Any, low: int, size: int, as_text: bool
) -> None:
    number = NUMBERS.get(actual) if isinstance(actual, str) else actual
    inside = isinstance(number, int | float) and low <= number <= low + size
    wanted = [str(low), str(low + size)] if as_text else [low, low + size]
    assert holds("between", wanted, actual) is inside
    assert holds("not_between", wanted, actual) is not inside


@given(actual=actuals)
def test_only_null_is_not_set(actual: Any) -> None:
    assert holds("is_set", None, actual) is (actual is not None)
    assert holds("is_not_set", None, actual) is (actual is None)


# How the parts of a filter combine

ACTIONS: dict[str, Any] = {
    "1": {"name": "One", "steps": [{"event": "x"}]},
    "2": {"name": "Two", "steps": [{"event": "y", "properties": [{"key": "a", "value": 1}]}, {"event": "z"}]},
}
pairs = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=2)
alternatives = st.lists(st.tuples(st.sampled_from(["x", "y", None]), pairs), max_size=2)
taken = st.lists(st.tuples(st.sampled_from(["1", "2"]), pairs), max_size=2)


def asking(wanted: list[tuple[str, int]]) -> list[Any]:
    return [{"key": key, "value": value} for key, value in wanted]


def is_action(number: str, name: str, told: dict[str, int]) -> bool:
    return name == "x" if number == "1" else name == "z" or (name == "y" and told["a"] == 1)


@given(
    accounts=pairs, held_back=st.booleans(), properties=pairs, events=alternatives, actions=taken,
    name=st.sampled_from("xyz"), a=st.integers(0, 1), b=st.integers(0, 1),
)  # fmt: skip
def test_case_74_test_accounts_and_properties_and_any_of_events_and_actions_count(
    accounts: Any, held_back: bool, properties: Any, events: Any, actions: Any, name: str, a: int, b: int
) -> None:
    told = {"a": a, "b": b}

    def all_of(wanted: list[tuple[str, int]]) -> bool:
        return all(told[key] == value for key, value in wanted)

    compiled = compile_filter(
        {
            "filter_test_accounts": held_back,
            "properties": asking(properties),
            "events": [{"id": wanted, "type": "events", "properties": asking(own)} for wanted, own in events],
            "actions": [{"id": number, "type": "actions", "properties": asking(own)} for number, own in actions],
        },
        project=ProjectFilters(test_accounts=asking(accounts), actions=ACTIONS),
    )
    named = [wanted in {None, name} and all_of(own) for wanted, own in events]
    done = [is_action(number, name, told) and all_of(own) for number, own in actions]
    expected = (not held_back or all_of(accounts)) and all_of(properties) and (any(named + done) or not named + done)
    occurred = event(told, name=name)
    assert compiled.matches(occurred) is expected
    assert all(compared.passed for compared in compiled.explain(occurred)) is expected
