"""The operators of property filters. One more operator is one more entry in OPERATORS.

Missing and null are one: such a value satisfies `is_not_set` and the negative operators, and nothing else. A list as
the wanted value means any of it (none of it for a negative operator), each compared like a single value.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from loops.event import JsonValue
from loops.expressions.coercion import equals, to_text

Test: TypeAlias = Callable[[JsonValue], bool]

SHOWN_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Operator:
    """How one operator is evaluated, told, and checked when saved.

    `build` makes the test of an actual value; `wanted` words the wish, as in `exactly "opened"`; `fault` says what is
    wrong with a wanted value, "" when nothing is. Where `wants_value` is false the filter's value means nothing.
    """

    build: Callable[[JsonValue], Test]
    wanted: Callable[[JsonValue], str]
    fault: Callable[[JsonValue], str]
    wants_value: bool = True


def shown(value: JsonValue) -> str:
    """The value as JSON text of at most SHOWN_LENGTH characters and an ellipsis."""
    if isinstance(value, str):
        value = value[: SHOWN_LENGTH + 1]
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def cut(text: str) -> str:
    """At most SHOWN_LENGTH characters of the text, and an ellipsis where that is not all of it."""
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}…"


def each(wanted: JsonValue) -> list[JsonValue]:
    """The single values that a wanted value asks for."""
    return wanted if isinstance(wanted, list) else [wanted]


def all_strings(wanted: JsonValue) -> frozenset[str] | None:
    """The wanted values when every one is a string, so that strings compare by identity alone; else None."""
    strings = frozenset(value for value in each(wanted) if isinstance(value, str))
    return strings if all(isinstance(value, str) for value in each(wanted)) else None


def _comparable(wanted: JsonValue) -> str:
    """What keeps a wanted value from ever being equal to, or contained in, an actual one."""
    if wanted is None:
        return "has no value"
    if wanted == []:
        return "is an empty list, which no event can satisfy"
    for value in each(wanted):
        if value is None:
            return "holds null, which no value equals"
        if not isinstance(value, (str, int, float)):
            return f"must be a string, number, boolean or a list of them, got {shown(value)}"
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number"
    return ""


def _anything(wanted: JsonValue) -> str:  # noqa: ARG001
    return ""


def _equal_to_any(wanted: JsonValue) -> Test:
    strings = all_strings(wanted)
    candidates = each(wanted)

    def holds(actual: JsonValue) -> bool:
        if strings is not None and type(actual) is str:
            return actual in strings
        return actual is not None and any(equals(actual, candidate) for candidate in candidates)

    return holds


def _containing_any(wanted: JsonValue) -> Test:
    needles = tuple(to_text(value).lower() for value in each(wanted))

    def holds(actual: JsonValue) -> bool:
        if actual is None:
            return False
        text = to_text(actual).lower()
        return any(needle in text for needle in needles)

    return holds


def _negation(build: Callable[[JsonValue], Test]) -> Callable[[JsonValue], Test]:
    def build_negation(wanted: JsonValue) -> Test:
        holds = build(wanted)
        return lambda actual: not holds(actual)

    return build_negation


def _is_set(wanted: JsonValue) -> Test:  # noqa: ARG001
    return lambda actual: actual is not None


def _listed(single: str, several: str) -> Callable[[JsonValue], str]:
    def words(wanted: JsonValue) -> str:
        values = each(wanted)
        if len(values) == 1:
            return f"{single} {shown(values[0])}"
        return f"{several} {cut(', '.join(shown(value) for value in values))}"

    return words


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "exact": Operator(_equal_to_any, _listed("exactly", "one of"), _comparable),
        "is_not": Operator(_negation(_equal_to_any), _listed("anything but", "none of"), _comparable),
        "is_set": Operator(_is_set, lambda _: "any value", _anything, wants_value=False),
        "is_not_set": Operator(_negation(_is_set), lambda _: "no value", _anything, wants_value=False),
        "icontains": Operator(_containing_any, _listed("text that contains", "text that contains one of"), _comparable),
    }
)
