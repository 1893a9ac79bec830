"""The comparison and printing rules of Hog, which property filters share."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from loops.expressions import to_text
from loops.expressions.coercion import (
    HogValue,
    contains,
    epoch_seconds,
    equals,
    less,
    less_or_equal,
    parse_moment,
    to_number,
)

NOON = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("5", 5, True),  # d1
        (5, "5.0", True),
        (5, "five", False),
        ("", 0, True),
        ("true", True, True),  # d3
        ("false", False, True),
        ("no", False, True),  # whatever is not "true" is false
        ("yes", True, False),
        (True, 1, True),
        (False, 2, False),
        ("Fire", "fire", False),
        (None, None, True),
        (None, 0, False),
        (None, "", False),
        (None, False, False),
        ([], [], False),
        ({"a": 1}, {"a": 1}, False),
        ("1_000", 1000, False),
        ("nan", float("nan"), False),
        (1, 1.0, True),
        (NOON, "2026-03-20T12:00:00Z", True),
        (NOON, "2026-03-20 13:00:00+01:00", True),
        (NOON, "tomorrow", False),
        (date(2026, 3, 20), "2026-03-20", True),
    ],
)
def test_equality_follows_the_coercion_of_the_pair(a, b, expected):
    assert equals(a, b) is expected
    assert equals(b, a) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("10", "9", True),  # d6: two texts compare as texts
        (5, "10", True),  # d7
        ("10", 5, False),
        (None, 5, True),  # d8
        (None, 0, False),
        (5, None, False),
        ("abc", 5, False),
        (5, "abc", False),
        (False, True, True),
        (False, "true", True),
        ([], 5, False),
        ({}, {}, False),
        (NOON, "2026-03-20T12:00:01Z", True),
        (NOON, NOON + timedelta(seconds=1), True),
        (date(2026, 3, 20), NOON, True),
    ],
)
def test_order_is_numeric_unless_both_are_texts(a, b, expected):
    assert less(a, b) is expected


def test_what_does_not_compare_is_neither_less_nor_greater_nor_equal():
    assert not less("abc", 5)
    assert not less(5, "abc")
    assert not less_or_equal("abc", 5)
    assert not less_or_equal(5, "abc")


@pytest.mark.parametrize(("a", "b"), [(None, 0), ("5", 5), ("a", "a"), (True, 1), (NOON, "2026-03-20T12:00:00Z")])
def test_less_or_equal_holds_for_what_coerces_to_the_same(a, b):
    assert less_or_equal(a, b)
    assert less_or_equal(b, a)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0),
        (None, 0),
        (True, 1),
        (" 5 ", 5),
        ("1e3", 1000),
        ("0x10", 16),
        ("-.5", -0.5),
        ("1_0", None),
        ("infinity", None),
        ("NaN", None),
        ("1e999", None),
        (float("inf"), float("inf")),
        (float("nan"), None),
        ([5], None),
        ("9" * 5000, None),
        ("٣", None),
    ],
)
def test_to_number_reads_what_javascript_reads(value, expected):
    assert to_number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1.5e-7, "1.5e-7"),
        (0.000001, "0.000001"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2.7890840981819507e20, "278908409818195070000"),
        (12345678901234567890, "12345678901234567890"),
        (10**21, "1e+21"),
        (10**400, "Infinity"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_print_as_javascript_prints_them(value, expected):
    assert to_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("it's", "it's"),
        (None, "null"),
        (True, "true"),
        (["a", "b"], "['a', 'b']"),
        ({"k": "v"}, "{'k': 'v'}"),
        ({"a": [1, None, "it's\n\\"], "b": {}}, "{'a': [1, null, 'it\\'s\\n\\\\'], 'b': {}}"),
        ([], "[]"),
        (NOON, "2026-03-20T12:00:00.000Z"),
        (datetime(2026, 3, 20, 12, tzinfo=timezone(timedelta(hours=2))), "2026-03-20T12:00:00.000+02:00"),
        (date(2026, 3, 20), "2026-03-20"),
    ],
)
def test_values_print_in_the_notation_of_hog(value, expected):
    assert to_text(value) == expected


def test_a_value_nested_deeper_than_python_recurses_still_prints():
    value: HogValue = []
    for _ in range(20_000):
        value = [value]
    assert to_text(value) == "[" * 20_001 + "]" * 20_001


@pytest.mark.parametrize(
    ("container", "item", "expected"),
    [
        ([5, 6], "5", False),  # d2: membership does not coerce
        ([5, 6], 5.0, True),
        ([1, 0], True, False),
        ([True], 1, False),
        ([None], None, True),
        ([[1]], [1], False),
        ("abcd", "bc", True),
        ("a5", 5, True),
        ({"a": 1}, "a", True),
        ({"a": 1}, 1, False),
        (None, "a", False),
        (5, 5, False),
    ],
)
def test_membership_is_strict(container, item, expected):
    assert contains(container, item) is expected


@pytest.mark.parametrize(
    "text", ["2024", "2024-01", "20240101", "2024-W05", "12:30", "yesterday", "2024-13-01", "", "2024-01-01T25:00"]
)
def test_only_a_full_date_is_a_moment(text):
    assert parse_moment(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-20", datetime(2026, 3, 20, tzinfo=UTC)),
        (" 2026-03-20 12:00 ", NOON),
        ("2026-03-20t12:00:00z", NOON),
        ("2026-03-20T14:00:00+0200", NOON),
        ("2026-03-20T12:00:00,250Z", NOON + timedelta(milliseconds=250)),
    ],
)
def test_a_moment_without_offset_is_utc(text, expected):
    assert parse_moment(text) == expected


def test_a_day_counts_from_its_midnight_in_utc():
    assert epoch_seconds(date(1970, 1, 2)) == 86_400
    assert epoch_seconds(datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)) == 0.5
