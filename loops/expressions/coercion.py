"""How Hog compares and counts values, whatever their types."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo

from loops.expressions.notation import HogValue, Number, hog_text, is_container

__all__ = [
    "HogValue",
    "Number",
    "contains",
    "epoch_seconds",
    "equals",
    "less",
    "less_or_equal",
    "parse_moment",
    "same",
    "to_number",
    "to_text",
    "truthy",
]

_NUMBER_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXED_INT = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", re.ASCII)
_LONGEST_NUMBER_TEXT = 400
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)


def equals(a: HogValue, b: HogValue) -> bool:
    """Whether `a == b` in Hog: case-sensitive, after coercion; lists and maps never equal anything."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if is_container(a) or is_container(b):
        return False
    if a is None or b is None:
        return a is b
    left, right = _unified(a, b)
    return left is not None and right is not None and left == right


def same(a: HogValue, b: HogValue) -> bool:
    """Whether both have one type and are equal, without coercion: how `in` and `has` look for an item."""
    if is_container(a) or is_container(b) or isinstance(a, bool) != isinstance(b, bool):
        return False
    return a == b


def contains(container: HogValue, item: HogValue) -> bool:
    """Whether a list has the item, a text the text, or a map the key; nothing else contains anything."""
    if isinstance(container, str):
        return to_text(item) in container
    if isinstance(container, Mapping):
        return isinstance(item, str) and item in container
    if not isinstance(container, Sequence) or is_container(item) or item not in container:
        return False
    # Python finds 1 where true was asked for.
    return item is None or isinstance(item, str) or any(same(member, item) for member in container)


def less(a: HogValue, b: HogValue) -> bool:
    """Whether `a < b` in Hog: texts by code point, all else as numbers, where null counts as 0."""
    if isinstance(a, str) and isinstance(b, str):
        return a < b
    left, right = _unified(a, b)
    return left is not None and right is not None and left < right


def less_or_equal(a: HogValue, b: HogValue) -> bool:
    """Whether `a <= b` in Hog. Not the same as `not less(b, a)`: what does not compare satisfies neither."""
    if isinstance(a, str) and isinstance(b, str):
        return a <= b
    left, right = _unified(a, b)
    return left is not None and right is not None and left <= right


def truthy(value: HogValue) -> bool:
    """Whether a condition holds: null, false, 0, NaN and "" do not; empty lists and maps do."""
    return True if is_container(value) else bool(value) and value == value


def to_number(value: HogValue) -> Number | None:
    """The value as a number, None where it is none: "" and null are 0, true is 1, a moment its epoch."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, str):
        return _number_of_text(value)
    return epoch_seconds(value) if isinstance(value, date) else None


def to_text(value: HogValue) -> str:
    """Hog's `toString`: a string as it is, null is "null", numbers as JavaScript, lists `['a']`, maps `{'k': 1}`."""
    return hog_text(value)


def parse_moment(text: str, zone: tzinfo = UTC) -> datetime | None:
    """The moment that a full ISO 8601 date or date and time names, else None. `zone` holds where no offset is given."""
    stripped = text.strip()
    if not _MOMENT.fullmatch(stripped):
        return None
    try:
        moment = datetime.fromisoformat(stripped.upper())
    except ValueError:
        return None
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment


def epoch_seconds(value: date) -> Number:
    """Seconds since 1970 in UTC; a day counts from its midnight in UTC. Whole seconds are an int."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    seconds = aware.timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _unified(a: HogValue, b: HogValue) -> tuple[Number | None, Number | None]:
    """Both as numbers by the rule for this pair of types; None for a side that is no number."""
    if isinstance(a, bool) and isinstance(b, str):
        return int(a), int(b == "true")
    if isinstance(b, bool) and isinstance(a, str):
        return int(a == "true"), int(b)
    if isinstance(a, date) or isinstance(b, date):
        return _epoch(a), _epoch(b)
    return to_number(a), to_number(b)


def _epoch(value: HogValue) -> Number | None:
    if isinstance(value, str):
        moment = parse_moment(value)
        return None if moment is None else epoch_seconds(moment)
    return epoch_seconds(value) if isinstance(value, date) else None


def _number_of_text(text: str) -> Number | None:
    stripped = text.strip()
    if not stripped:
        return 0
    if len(stripped) > _LONGEST_NUMBER_TEXT:
        return None
    if _NUMBER_TEXT.fullmatch(stripped):
        if stripped.lstrip("+-").isdecimal():
            return int(stripped)
        number = float(stripped)
        return number if math.isfinite(number) else None
    return int(stripped, 0) if _PREFIXED_INT.fullmatch(stripped) else None
