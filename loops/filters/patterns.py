"""The operators of regular expressions, and cleaned paths."""

from functools import lru_cache
from typing import Any

from loops.errors import Fault, FilterError
from loops.event import JsonValue
from loops.expressions.coercion import to_text
from loops.expressions.regular import LONGEST_PATTERN, PatternError, compiled, refusal
from loops.filters.operator import Complaint, Holds, Operator, comparable, each, listed
from loops.filters.project import ProjectFilters

MOST_INSTRUCTIONS = 2_000
# Instructions of a pattern times bytes of a text: well under a second at worst.
_MOST_WORK = 100_000_000

_TOO_LONG = "the text is too long for this pattern"


class Pattern:
    """One compiled pattern."""

    __slots__ = ("_compiled", "_most_bytes")

    def __init__(self, compiled: Any) -> None:  # noqa: ANN401  # the library has no types
        self._compiled = compiled
        self._most_bytes = _MOST_WORK // max(1, compiled.programsize)

    def found_in(self, text: str) -> bool | None:
        """Whether the pattern matches anywhere in the text; None where the text is too long for it."""
        # A lone surrogate has no UTF-8: RE2 takes the bytes it becomes here for characters that are not valid.
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > self._most_bytes:
            return None
        return self._compiled.search(raw) is not None

    def replaced(self, replacement: str, text: str) -> str:
        """The text with the replacement, which is taken literally, in place of each match; as it is when too long."""
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > self._most_bytes:
            return text
        literal = replacement.encode("utf-8", "surrogatepass")
        changed: bytes = self._compiled.sub(lambda _match: literal, raw)
        return changed.decode("utf-8", "replace")


def compile_pattern(pattern: str, *, path: str) -> Pattern:
    """The pattern, compiled. Raises FilterError with what it has that RE2 lacks."""
    complaint = _fault_in(pattern)
    if complaint is not None:
        raise FilterError([Fault(path, *complaint)])
    return _compiled(pattern)


def _compiled(pattern: str) -> Pattern:
    return Pattern(compiled(pattern.encode(), captures=False))


@lru_cache(maxsize=1024)
def _fault_in(pattern: str) -> Complaint:
    if not pattern:
        return "is an empty pattern, which matches nothing", "use is_set to ask for any value"
    if len(pattern) > LONGEST_PATTERN:
        return f"is a pattern of {len(pattern)} characters", f"at most {LONGEST_PATTERN}; use several in a list"
    try:
        size = _compiled(pattern)._compiled.programsize  # noqa: SLF001
    except UnicodeEncodeError:
        return "holds half of a character", "write the whole character"
    except PatternError as error:
        what, mend = refusal(error)
        return f"is no pattern that can be used: {what or repr(pattern)}", mend
    if size > MOST_INSTRUCTIONS:
        return "is a pattern that is too large once its repetitions are written out", "repeat less, or use + or *"
    return None


def _fault(wanted: JsonValue) -> Complaint:
    return comparable(wanted) or next(
        (complaint for value in each(wanted) if (complaint := _fault_in(to_text(value)))), None
    )


def _results(wanted: JsonValue) -> list[Pattern]:
    return [_compiled(to_text(value)) for value in each(wanted)]


def _matching_any(wanted: JsonValue, _project: ProjectFilters) -> Holds:
    patterns = _results(wanted)

    def holds(actual: JsonValue) -> bool:
        if actual is None:
            return False
        text = to_text(actual)
        return text != "" and any(pattern.found_in(text) for pattern in patterns)

    return holds


def _matching_none(wanted: JsonValue, _project: ProjectFilters) -> Holds:
    """The complement, but that a text which is too long to be searched passes neither."""
    patterns = _results(wanted)

    def holds(actual: JsonValue) -> bool:
        if actual is None:
            return True
        text = to_text(actual)
        return text == "" or all(pattern.found_in(text) is False for pattern in patterns)

    return holds


def _trouble(wanted: JsonValue, actual: JsonValue) -> str:
    if actual is None:
        return ""
    found = [pattern.found_in(to_text(actual)) for pattern in _results(wanted)]
    return _TOO_LONG if None in found and True not in found else ""


PATTERNS = {
    "regex": Operator(_matching_any, listed("text that matches", "text that matches one of"), _fault, trouble=_trouble),
    "not_regex": Operator(
        _matching_none,
        listed("text that does not match", "text that matches none of"),
        _fault,
        negates="regex",
        trouble=_trouble,
    ),
}
