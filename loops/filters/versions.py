"""The operators that compare versions such as 1.2.3.

A version is cut at its first `-`; a minor or patch number that is left out is 0. What is no version passes none of
them, `semver_neq` included.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from loops.event import JsonValue
from loops.expressions.coercion import to_text
from loops.filters.operator import Build, Complaint, Holds, Operator, comparable, each, listed, shown
from loops.filters.project import ProjectFilters

# The numbers of a version, those at the end that are 0 left out: they make no difference.
Version: TypeAlias = tuple[int, ...]
_Range: TypeAlias = tuple[Version, Version]

_NUMBERS = re.compile(r"\d{1,18}(?:\.\d{1,18}){0,9}", re.ASCII)
_LONGEST = 500


def _parts(value: JsonValue) -> list[int] | None:
    """The numbers as they are written, None for what is no version."""
    if isinstance(value, (bool, list, dict)) or value is None:
        return None
    text = to_text(value)
    if len(text) > _LONGEST:
        return None
    numbers = text.strip().split("-", 1)[0]
    return [int(part) for part in numbers.split(".")] if _NUMBERS.fullmatch(numbers) else None


def _version(parts: list[int]) -> Version:
    kept = list(parts)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)


def _next(parts: list[int], place: int) -> Version:
    """The lowest version above all that begin like this one up to `place`."""
    return _version([*parts[:place], parts[place] + 1])


def _tilde(parts: list[int]) -> _Range:
    return _version(parts), _next(parts, min(1, len(parts) - 1))


def _caret(parts: list[int]) -> _Range:
    last = min(len(parts), 3) - 1
    place = next((number for number, part in enumerate(parts[:3]) if part), last)
    return _version(parts), _next(parts, place)


def _wildcard(parts: list[int]) -> _Range:
    return _version(parts), _next(parts, len(parts) - 1)


def _compared(rule: Callable[[Version, Version], bool], *, every: bool = False) -> Build:
    """Whether the rule holds between a version and the wanted one, or one of a list, or `every` one."""

    def build(wanted: JsonValue, _project: ProjectFilters) -> Holds:
        wishes = [_version(parts) for value in each(wanted) if (parts := _parts(value)) is not None]

        def holds(actual: JsonValue) -> bool:
            parts = _parts(actual)
            if parts is None:
                return False
            version = _version(parts)
            return (all if every else any)(rule(version, wish) for wish in wishes)

        return holds

    return build


def _within(span: Callable[[list[int]], _Range]) -> Build:
    def build(wanted: JsonValue, _project: ProjectFilters) -> Holds:
        ranges = [span(parts) for value in each(wanted) if (parts := _parts(_bare(value))) is not None]

        def holds(actual: JsonValue) -> bool:
            parts = _parts(actual)
            if parts is None:
                return False
            version = _version(parts)
            return any(low <= version < high for low, high in ranges)

        return holds

    return build


def _bare(value: JsonValue) -> JsonValue:
    return value.strip().removesuffix(".*") if isinstance(value, str) else value


def _fault(wanted: JsonValue) -> Complaint:
    example = "write numbers with dots between them, such as 1.2.3"
    return comparable(wanted) or next(
        ((f"is no version: {shown(value)}", example) for value in each(wanted) if _parts(value) is None), None
    )


def _wildcard_fault(wanted: JsonValue) -> Complaint:
    example = "write it as 1.* or 1.2.*"
    return comparable(wanted) or next(
        (
            (f"is no version that ends in .*: {shown(value)}", example)
            for value in each(wanted)
            if not isinstance(value, str) or not value.strip().endswith(".*") or _parts(_bare(value)) is None
        ),
        None,
    )


def _operator(build: Build, words: str, fault: Callable[[JsonValue], Complaint] = _fault) -> Operator:
    return Operator(build, listed(words, f"{words} one of"), fault)


VERSIONS = {
    "semver_eq": _operator(_compared(lambda a, b: a == b), "the version"),
    "semver_neq": _operator(_compared(lambda a, b: a != b, every=True), "a version other than"),
    "semver_gt": _operator(_compared(lambda a, b: a > b), "a version above"),
    "semver_gte": _operator(_compared(lambda a, b: a >= b), "a version from"),
    "semver_lt": _operator(_compared(lambda a, b: a < b), "a version below"),
    "semver_lte": _operator(_compared(lambda a, b: a <= b), "a version up to"),
    "semver_tilde": _operator(_within(_tilde), "a version that fits ~"),
    "semver_caret": _operator(_within(_caret), "a version that fits ^"),
    "semver_wildcard": _operator(_within(_wildcard), "a version that fits", _wildcard_fault),
}
