"""The public cases of filters that stand nowhere else, by their numbers."""

from typing import Any

import pytest

from loops.filters import compile_filter
from tests.unit.filters.events import SLACK, event, holds, one

ACTIVITY = "$activity_log_entry_created"


@pytest.mark.parametrize(
    ("properties", "actual", "expected"),
    [
        pytest.param([("channel", ["C0ALERTS"], "exact")], {"channel": "C0ALERTS"}, True, id="case-20"),
        pytest.param([("channel", ["C0ALERTS|#alerts"], "exact")], {"channel": "C0ALERTS"}, False, id="case-21"),
        pytest.param([("bot_id", "is_not_set", "is_not_set")], {"bot_id": None}, True, id="case-22"),
        pytest.param([("bot_id", "is_not_set", "is_not_set")], {"bot_id": "B42"}, False, id="case-23"),
        pytest.param([("bot_id", "is_set", "is_set")], {"bot_id": "B42"}, True, id="case-24"),
        pytest.param([("bot_id", "is_set", "is_set")], {"bot_id": None}, False, id="case-25"),
        pytest.param([("user", ["U123", "U456"], "exact")], {"user": "U123"}, True, id="case-26"),
        pytest.param([("user", ["U123", "U456"], "exact")], {"user": "U999"}, False, id="case-27"),
        pytest.param([("thread_ts", "is_not_set", "is_not_set")], {"thread_ts": None}, True, id="case-28"),
        pytest.param(
            [("thread_ts", "is_not_set", "is_not_set")], {"thread_ts": "1699999999.000000"}, False, id="case-29"
        ),
        pytest.param([("text", ["fire"], "icontains")], {"text": "the database is on fire"}, True, id="case-30"),
        pytest.param([("text", ["fire"], "icontains")], {"text": "deploy finished"}, False, id="case-31"),
        pytest.param(
            [("channel", ["C0ALERTS"], "exact"), ("bot_id", "is_not_set", "is_not_set")],
            {"channel": "C0ALERTS", "bot_id": None},
            True,
            id="case-32",
        ),
        pytest.param(
            [("channel", ["C0ALERTS"], "exact"), ("bot_id", "is_not_set", "is_not_set")],
            {"channel": "C0ALERTS", "bot_id": "B42"},
            False,
            id="case-32 a bot",
        ),
    ],
)
def test_public_cases_of_slack_filters(
    properties: list[tuple[str, Any, str]], actual: dict[str, Any], expected: bool
) -> None:
    entries: list[Any] = [
        {"key": key, "value": value, "operator": operator, "type": "event"} for key, value, operator in properties
    ]
    events: list[Any] = [{"id": SLACK, "type": "events"}]
    compiled = compile_filter({"source": "internal-events", "events": events, "properties": entries})
    assert compiled.matches(event(actual, name=SLACK, source="slack")) is expected


@pytest.mark.parametrize(
    ("names", "wanted", "properties", "expected"),
    [
        pytest.param([ACTIVITY], "cheese", {"detail": {"name": "A cheese"}}, True, id="case-75"),
        pytest.param([ACTIVITY], "bananas", {"detail": {"name": "A cheese"}}, False, id="case-76"),
        pytest.param([ACTIVITY], "cheese", {"detail.name": "A cheese"}, False, id="case-75 the key is a path there"),
        pytest.param([ACTIVITY], "cheese", {"detail": ["cheese"]}, False, id="case-76 through no list"),
        pytest.param([ACTIVITY, "$pageview"], "cheese", {"detail.name": "A cheese"}, True, id="case-79"),
        pytest.param([ACTIVITY, "$pageview"], "cheese", {"detail": {"name": "A cheese"}}, False, id="case-79 is flat"),
        pytest.param([], "cheese", {"detail.name": "A cheese"}, True, id="case-77 without events too"),
    ],
)
def test_a_dotted_key_is_a_path_in_the_activity_log_alone(
    names: list[str], wanted: str, properties: dict[str, Any], expected: bool
) -> None:
    entry: Any = {"key": "detail.name", "operator": "icontains", "value": wanted, "type": "event"}
    compiled = compile_filter({"events": [{"id": name} for name in names], "properties": [entry]})
    assert compiled.matches(event(properties, name=ACTIVITY, source="posthog")) is expected


def test_case_85_what_was_never_compiled_elsewhere_is_compiled_here() -> None:
    """PostHog fails where `bytecode` is missing; it is not read here, so neither its absence nor its content counts."""
    variants: list[Any] = [{}, {"bytecode": None}, {"bytecode": ["_H", 1, 29]}]
    for more in variants:
        compiled = compile_filter({"properties": [{"key": "p", "value": "x"}], **more})
        assert compiled.matches(event({"p": "x"}))
        assert not compiled.matches(event({"p": "y"}))


@pytest.mark.parametrize(
    ("operator", "wanted", "actual", "expected"),
    [
        pytest.param("is_not", "x", None, True, id="d5"),
        pytest.param("not_regex", "x", "", True, id="d14"),
        pytest.param("is_set", None, "", True, id="d15 text"),
        pytest.param("is_set", None, 0, True, id="d15 zero"),
        pytest.param("is_set", None, False, True, id="d15 false"),
        pytest.param("in", [5], "5", True, id="in with one value"),
        pytest.param("in", "5", 5, True, id="in without a list"),
        pytest.param("in", ["4", "5"], 5, True, id="in by D5"),
        pytest.param("not_in", ["4", "5"], 5, False, id="not_in by D5"),
        pytest.param("not_in", [5], None, True, id="not_in without a value"),
        pytest.param("not_icontains", "ul", None, True, id="D4 whatever is in the word null"),
        pytest.param("not_icontains", ["a", "b"], "xBx", False, id="none of a list"),
        pytest.param("icontains_multi", ["a", "b"], "xBx", True, id="icontains_multi"),
        pytest.param("not_icontains_multi", ["a", "b"], "xyz", True, id="not_icontains_multi"),
        pytest.param("not_icontains", "a_c", "abc", True, id="D7 in the negative"),
    ],
)
def test_derived_cases_of_operators(operator: str, wanted: Any, actual: Any, expected: bool) -> None:
    assert holds(operator, wanted, actual) is expected
    if actual is None:
        assert one("p", operator, wanted).matches(event({})) is expected
