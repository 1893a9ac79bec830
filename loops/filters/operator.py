"""What an operator is, and the words and checks that several of them share."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from loops.event import JsonValue
from loops.filters.project import ProjectFilters

Holds: TypeAlias = Callable[[JsonValue], bool]
Build: TypeAlias = Callable[[JsonValue, ProjectFilters], Holds]
# What is wrong and what mends it ("" where the message says so itself); None when nothing is wrong.
Complaint: TypeAlias = tuple[str, str] | None

SHOWN_LENGTH = 200


def _no_complaint(_wanted: JsonValue) -> Complaint:
    return None


def _no_trouble(_wanted: JsonValue, _actual: JsonValue) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Operator:
    """How one operator is evaluated, told, and checked when saved.

    `build` makes the test of an actual value; `wanted` words the wish, as in `exactly "opened"`; `fault` says what is
    wrong with a wanted value. Where `wants_value` is false the filter's value means nothing. `negates` names the
    operator whose complement this is: it passes where there is no value. `trouble` says why a wanted and an actual
    value could not be compared, "" where they could. `by_project` is true where the project's settings count, and
    `resolved` then shows a wanted value as it is read at this moment.
    """

    build: Build
    wanted: Callable[[JsonValue], str]
    fault: Callable[[JsonValue], Complaint] = _no_complaint
    wants_value: bool = True
    negates: str = ""
    trouble: Callable[[JsonValue, JsonValue], str] = _no_trouble
    by_project: bool = False
    resolved: Callable[[JsonValue, ProjectFilters], JsonValue] | None = None


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


def listed(single: str, several: str) -> Callable[[JsonValue], str]:
    """The wording of a wish: `single` before an only value, `several` before those of a list."""

    def words(wanted: JsonValue) -> str:
        values = each(wanted)
        if len(values) == 1:
            return f"{single} {shown(values[0])}"
        return f"{several} {cut(', '.join(shown(value) for value in values))}"

    return words


def comparable(wanted: JsonValue) -> Complaint:
    """What keeps a wanted value from ever being held against an actual one."""
    instead = "to ask whether there is a value at all, use is_set or is_not_set"
    if wanted is None:
        return "has no value", instead
    if wanted == []:
        return "is an empty list, which no event can satisfy", instead
    for value in each(wanted):
        if value is None:
            return "holds null, which no value equals", ""
        if not isinstance(value, (str, int, float)):
            return f"must be a string, number, boolean or a list of them, got {shown(value)}", ""
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number", ""
    return None


def negation(build: Build) -> Build:
    """The complement: whatever the test refuses, a missing value too."""

    def build_negation(wanted: JsonValue, project: ProjectFilters) -> Holds:
        holds = build(wanted, project)
        return lambda actual: not holds(actual)

    return build_negation
