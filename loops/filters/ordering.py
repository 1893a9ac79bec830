"""The operators that ask what comes before and after.

Two values are compared as numbers when both read as numbers, as dates when both are ISO dates, else as text. A list
or an object has no order: it passes none but `not_between`.
"""

import operator as compare
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import TypeAlias

from loops.event import JsonValue
from loops.expressions.coercion import Number, epoch_seconds, parse_moment, to_number, to_text
from loops.filters.operator import Build, Complaint, Holds, Operator, comparable, each, listed, negation, shown
from loops.filters.project import ProjectFilters

_Rule: TypeAlias = Callable[[Number | str, Number | str], bool]


@dataclass(frozen=True, slots=True)
class _Reading:
    """The ways in which a value can be read."""

    number: Number | None
    seconds: Number | None
    text: str


def _number(value: JsonValue) -> Number | None:
    """The value as a number; a blank text is none, whatever Hog's coercion says of it."""
    if isinstance(value, str) and not value.strip():
        return None
    return None if value is None else to_number(value)


def _read(value: JsonValue, zone: tzinfo) -> _Reading:
    moment = parse_moment(value, zone) if isinstance(value, str) else None
    return _Reading(_number(value), None if moment is None else epoch_seconds(moment), to_text(value))


def _ordered(rule: Callable[..., bool]) -> Build:
    """Whether the rule holds between a value and the wanted one, or one of a list."""

    def build(wanted: JsonValue, project: ProjectFilters) -> Holds:
        zone = project.time_zone
        readings = [_read(value, zone) for value in each(wanted)]

        def holds(actual: JsonValue) -> bool:
            if actual is None or isinstance(actual, (list, dict)):
                return False
            reading = _read(actual, zone)
            return any(_holds(rule, reading, one) for one in readings)

        return holds

    return build


def _holds(rule: _Rule, actual: _Reading, wanted: _Reading) -> bool:
    if actual.number is not None and wanted.number is not None:
        return rule(actual.number, wanted.number)
    if actual.seconds is not None and wanted.seconds is not None:
        return rule(actual.seconds, wanted.seconds)
    return rule(actual.text, wanted.text)


def _between(wanted: JsonValue, _project: ProjectFilters) -> Holds:
    low, high = (_number(value) for value in each(wanted))

    def holds(actual: JsonValue) -> bool:
        number = _number(actual)
        return number is not None and low is not None and high is not None and low <= number <= high

    return holds


def _two_numbers(wanted: JsonValue) -> Complaint:
    example = "write the lowest and the highest number, as in [1, 10]"
    bounds = [_number(value) for value in wanted] if isinstance(wanted, list) else []
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None or comparable(wanted) is not None:
        return f"must be a list of two numbers, got {shown(wanted)}", example
    if bounds[0] > bounds[1]:
        return f"begins with the higher number, so nothing lies between: {shown(wanted)}", example
    return None


def _range_words(word: str) -> Callable[[JsonValue], str]:
    return lambda wanted: f"a number {word} {' and '.join(shown(value) for value in each(wanted))}"


def _than(rule: Callable[..., bool], words: str) -> Operator:
    return Operator(_ordered(rule), listed(words, f"{words} one of"), comparable, by_project=True)


_AT_LEAST = _than(compare.ge, "at least")
_AT_MOST = _than(compare.le, "at most")

ORDERING = {
    "gt": _than(compare.gt, "more than"),
    "gte": _AT_LEAST,
    "min": _AT_LEAST,
    "lt": _than(compare.lt, "less than"),
    "lte": _AT_MOST,
    "max": _AT_MOST,
    "between": Operator(_between, _range_words("between"), _two_numbers),
    "not_between": Operator(negation(_between), _range_words("not between"), _two_numbers, negates="between"),
}
