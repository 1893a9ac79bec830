"""Values as text: in Hog's own notation and as JSON.

Both are written with a stack instead of recursion, because a payload may be nested deeper than Python recurses,
and stop as soon as a limit is passed, because a payload may be large.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from loops.expressions.faults import fault

# JSON-like, or a moment (an aware `datetime`) or day (`date`) that a function made; a datetime is a date.
HogValue: TypeAlias = "bool | int | float | str | date | Sequence[HogValue] | Mapping[str, HogValue] | None"
Number: TypeAlias = int | float

# From here on JavaScript writes a number with an exponent; a Python int this long also takes long to print.
EXPONENT_FROM = 10**21
_EXACT_BELOW = 2**53  # above, a float's shortest digits are fewer than its integer's
_SURROGATE = re.compile("[\ud800-\udfff]")
_HOG_ESCAPES = str.maketrans(
    {
        "\\": "\\\\",
        "'": "\\'",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\a": "\\a",
        "\0": "\\0",
    }
)


def hog_text(value: HogValue, limit: int | None = None) -> str:
    """The value as a Hog literal, but a string as it is. Over `limit` characters raises TemplateError."""
    if isinstance(value, str):
        return value
    return _written(value, _HOG, limit) if is_container(value) else _hog_scalar(value)


def json_text(value: HogValue, limit: int | None = None) -> str:
    """The value as compact JSON: moments as ISO text, numbers that JSON lacks as null."""
    if isinstance(value, str):
        return _json_string(value)
    return _written(value, _JSON, limit) if is_container(value) else _json_scalar(value)


def number_text(value: Number) -> str:
    """The number as JavaScript prints it: 1.0 is "1", 1e21 is "1e+21"; a smaller integer keeps every digit."""
    if isinstance(value, int):
        return str(value) if -EXPONENT_FROM < value < EXPONENT_FROM else _exponent_text_of_int(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT_BELOW else _float_text(value)


def moment_text(value: date) -> str:
    """ISO 8601: milliseconds and offset (`Z` for UTC) for a moment, the plain day for a day."""
    if not isinstance(value, datetime):
        return value.isoformat()
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    text = aware.isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def as_json(value: HogValue) -> HogValue:
    """The value as JSON has it; only a moment or a number that is not finite is none."""
    if isinstance(value, date):
        return moment_text(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_container(value: HogValue) -> bool:
    """Whether the value is a list or a map."""
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str)


@dataclass(frozen=True, slots=True)
class _Style:
    string: Callable[[str], str]
    scalar: Callable[[HogValue], str]
    comma: str
    colon: str


def _written(value: HogValue, style: _Style, limit: int | None) -> str:
    if limit is None:
        return "".join(_pieces(value, style))
    pieces: list[str] = []
    length = 0
    for piece in _pieces(value, style):
        length += len(piece)
        if length > limit:
            raise fault(f"a list or map makes a text of more than {limit:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _pieces(value: HogValue, style: _Style) -> Iterator[str]:
    pending: list[tuple[bool, HogValue]] = [(False, value)]  # (is it finished text?, value)
    while pending:
        finished, item = pending.pop()
        if isinstance(item, str):
            yield item if finished else style.string(item)
        elif isinstance(item, Mapping):
            yield "{"
            pending.append((True, "}"))
            pending.extend(_reversed_entries(item, style))
        elif isinstance(item, Sequence):
            yield "["
            pending.append((True, "]"))
            pending.extend(_reversed_items(item, style))
        else:
            yield style.scalar(item)


def _reversed_entries(mapping: Mapping[str, HogValue], style: _Style) -> list[tuple[bool, HogValue]]:
    entries: list[tuple[bool, HogValue]] = []
    for key, value in mapping.items():
        entries.append((True, f"{style.comma if entries else ''}{style.string(key)}{style.colon}"))
        entries.append((False, value))
    entries.reverse()
    return entries


def _reversed_items(items: Sequence[HogValue], style: _Style) -> Iterator[tuple[bool, HogValue]]:
    for index in range(len(items) - 1, -1, -1):
        yield (False, items[index])
        if index:
            yield (True, style.comma)


def _hog_string(text: str) -> str:
    return f"'{text.translate(_HOG_ESCAPES)}'"


def _hog_scalar(value: HogValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value)
    return moment_text(value) if isinstance(value, date) else str(value)


def _json_string(text: str) -> str:
    # A lone surrogate cannot be encoded, so only its escape can travel.
    return json.dumps(text, ensure_ascii=_SURROGATE.search(text) is not None)


def _json_scalar(value: HogValue) -> str:
    if isinstance(value, date):
        return f'"{moment_text(value)}"'
    if isinstance(value, float) and not abs(value) < _EXACT_BELOW:
        # A reader that has integers would take the rounded digits that JavaScript prints for another number.
        return repr(value) if math.isfinite(value) else "null"
    return _hog_scalar(value)


_HOG = _Style(_hog_string, _hog_scalar, ", ", ": ")
_JSON = _Style(_json_string, _json_scalar, ",", ":")


def _exponent_text_of_int(value: int) -> str:
    try:
        return _float_text(float(value))
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"


def _float_text(value: float) -> str:
    """Python's shortest digits, laid out by JavaScript's rule: an exponent from 1e21 up and below 1e-6."""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = whole + fraction
    digits = written.lstrip("0")
    # Where the decimal point stands, counted from the first digit that is not 0.
    point = len(whole) + int(exponent or 0) - (len(written) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _laid_out(digits, point)


def _laid_out(digits: str, point: int) -> str:
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}" if len(digits) > point else digits.ljust(point, "0")
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    shown = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{shown}e{'+' if point > 0 else '-'}{abs(point - 1)}"
