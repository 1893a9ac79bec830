"""How Hog compares, counts and prints values, whatever their types.

A value is JSON-like, or a moment (`datetime`) or day (`date`) that a function made. Moments are always aware.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TypeAlias

HogValue: TypeAlias = "bool | int | float | str | date | Sequence[HogValue] | Mapping[str, HogValue] | None"
Number: TypeAlias = int | float

# From here on JavaScript writes a number with an exponent; a Python int this long also takes long to print.
_EXPONENT_FROM = 10**21
_NUMBER_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXED_INT = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", re.ASCII)
_LONGEST_NUMBER_TEXT = 400
_ESCAPES = str.maketrans(
    {
        "\\": "\\\\",
        "'": "\\'",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\0": "\\0",
    }
)


def equals(a: HogValue, b: HogValue) -> bool:
    """Whether `a == b` in Hog: case-sensitive, after coercion; lists and maps are never equal to anything."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if _is_container(a) or _is_container(b):
        return False
    if a is None or b is None:
        return a is b
    left, right = _unified(a, b)
    return left is not None and right is not None and left == right


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
    """Whether a condition holds: null, false, 0 and "" do not; empty lists and maps do."""
    return True if _is_container(value) else bool(value)


def to_number(value: HogValue) -> Number | None:
    """The value as a number, None where it is none: "" and null are 0, true is 1, " 5 " is 5, a moment its epoch."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _number_of_text(value)
    return epoch_seconds(value) if isinstance(value, date) else None


def to_text(value: HogValue) -> str:
    """Hog's `toString`: a string as it is, null is "null", numbers as in JavaScript, lists `['a']`, maps `{'k': 1}`."""
    if isinstance(value, str):
        return value
    return _scalar_text(value) if not _is_container(value) else "".join(_notation(value))


def number_text(value: Number) -> str:
    """The number as JavaScript prints it: 1.0 is "1", 1e21 is "1e+21"; an integer below that keeps every digit."""
    if isinstance(value, int):
        if -_EXPONENT_FROM < value < _EXPONENT_FROM:
            return str(value)
        return _exponent_text_of_int(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value.is_integer() and abs(value) < _EXPONENT_FROM:
        return str(int(value))
    return _float_text(value)


def parse_moment(text: str) -> datetime | None:
    """The moment that an ISO 8601 text names, UTC where it gives no offset; None where it names none."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    except (ValueError, OverflowError):
        return None


def moment_text(value: date) -> str:
    """ISO 8601: milliseconds and offset (`Z` for UTC) for a moment, the plain day for a day."""
    if not isinstance(value, datetime):
        return value.isoformat()
    text = _aware(value).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def epoch_seconds(value: date) -> Number:
    """Seconds since 1970 in UTC; a day counts from its midnight in UTC. Whole seconds are an int."""
    moment = (
        value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    )
    seconds = _aware(moment).timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _is_container(value: HogValue) -> bool:
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str)


def _unified(a: HogValue, b: HogValue) -> tuple[Number | None, Number | None]:
    """Both as numbers by the pair's rule; None for a side that is no number."""
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
        if stripped.lstrip("+-").isdigit():
            return int(stripped)
        number = float(stripped)
        return number if math.isfinite(number) else None
    return int(stripped, 0) if _PREFIXED_INT.fullmatch(stripped) else None


def _scalar_text(value: HogValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value)
    return moment_text(value) if isinstance(value, date) else str(value)


def _quoted(text: str) -> str:
    return f"'{text.translate(_ESCAPES)}'"


def _notation(value: HogValue) -> Iterator[str]:
    """Hog's notation in pieces; by a stack of its own, as a payload may be nested deeper than Python recurses."""
    pending: list[tuple[bool, HogValue]] = [(False, value)]  # (is it literal text?, value)
    while pending:
        literal, item = pending.pop()
        if literal:
            yield str(item)
        elif isinstance(item, str):
            yield _quoted(item)
        elif isinstance(item, Mapping):
            yield "{"
            pending.append((True, "}"))
            pending.extend(_reversed_entries(item))
        elif isinstance(item, Sequence):
            yield "["
            pending.append((True, "]"))
            for index in range(len(item) - 1, -1, -1):
                pending.append((False, item[index]))
                if index:
                    pending.append((True, ", "))
        else:
            yield _scalar_text(item)


def _reversed_entries(mapping: Mapping[str, HogValue]) -> list[tuple[bool, HogValue]]:
    entries: list[tuple[bool, HogValue]] = []
    for key, value in mapping.items():
        entries.append((True, f"{', ' if entries else ''}{_quoted(key)}: "))
        entries.append((False, value))
    entries.reverse()
    return entries


def _exponent_text_of_int(value: int) -> str:
    try:
        return _float_text(float(value))
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"


def _float_text(value: float) -> str:
    """Python's shortest digits, laid out by JavaScript's rule: an exponent from 1e21 up and below 1e-6."""
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
    # The decimal point stands before digits[0] for point == 0.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        body = digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = f"0.{'0' * -point}{digits}"
    else:
        shown = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        body = f"{shown}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + body
