"""The operators that ask whether a value is there, is another, or has a text in it."""

from loops.event import JsonValue
from loops.expressions.coercion import equals, to_text
from loops.filters.operator import Build, Holds, Operator, comparable, each, listed, negation
from loops.filters.patterns import Pattern, compile_pattern
from loops.filters.project import ProjectFilters


def all_strings(wanted: JsonValue) -> frozenset[str] | None:
    """The wanted values when every one is a string, so that strings compare by identity alone; else None."""
    strings = frozenset(value for value in each(wanted) if isinstance(value, str))
    return strings if all(isinstance(value, str) for value in each(wanted)) else None


def equal_to_any(wanted: JsonValue, _project: ProjectFilters) -> Holds:
    """Whether a value equals the wanted one, or one of a list, after coercion."""
    strings = all_strings(wanted)
    candidates = each(wanted)

    def holds(actual: JsonValue) -> bool:
        if strings is not None and type(actual) is str:
            return actual in strings
        return actual is not None and any(equals(actual, candidate) for candidate in candidates)

    return holds


def _containing_any(wanted: JsonValue, _project: ProjectFilters) -> Holds:
    needles = tuple(to_text(value).lower() for value in each(wanted))

    def holds(actual: JsonValue) -> bool:
        if actual is None:
            return False
        text = to_text(actual).lower()
        return any(needle in text for needle in needles)

    return holds


def _is_set(_wanted: JsonValue, _project: ProjectFilters) -> Holds:
    return lambda actual: actual is not None


def _equal_when_cleaned(wanted: JsonValue, project: ProjectFilters) -> Holds:
    rules = [
        (compile_pattern(pattern, path=f"project.path_cleaning[{number}]"), alias)
        for number, (pattern, alias) in enumerate(project.path_cleaning)
    ]
    cleaned: JsonValue = [_cleaned(to_text(value), rules) for value in each(wanted)]
    holds = equal_to_any(cleaned, project)

    def holds_when_cleaned(actual: JsonValue) -> bool:
        return isinstance(actual, str) and holds(_cleaned(actual, rules))

    return holds_when_cleaned


def _cleaned(path: str, rules: list[tuple[Pattern, str]]) -> str:
    for pattern, alias in rules:
        path = pattern.replaced(alias, path)
    return path


def _exact(build: Build) -> Operator:
    return Operator(build, listed("exactly", "one of"), comparable)


def _not(negated: str, build: Build, single: str, several: str) -> Operator:
    return Operator(negation(build), listed(single, several), comparable, negates=negated)


_ICONTAINS = Operator(_containing_any, listed("text that contains", "text that contains one of"), comparable)
_WITHOUT = "text that does not contain", "text that contains none of"

EQUALITY = {
    "exact": _exact(equal_to_any),
    "is_not": _not("exact", equal_to_any, "anything but", "none of"),
    "in": _exact(equal_to_any),
    "not_in": _not("in", equal_to_any, "anything but", "none of"),
    "is_set": Operator(_is_set, lambda _: "any value", wants_value=False),
    "is_not_set": Operator(negation(_is_set), lambda _: "no value", wants_value=False, negates="is_set"),
    "icontains": _ICONTAINS,
    "not_icontains": _not("icontains", _containing_any, *_WITHOUT),
    "icontains_multi": _ICONTAINS,
    "not_icontains_multi": _not("icontains_multi", _containing_any, *_WITHOUT),
    "is_cleaned_path_exact": Operator(
        _equal_when_cleaned,
        listed("a path that is, cleaned,", "a path that is, cleaned, one of"),
        comparable,
        by_project=True,
    ),
}
