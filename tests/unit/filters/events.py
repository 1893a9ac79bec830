"""Events and filters for the tests of filters."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from loops.event import Event, JsonValue, Person
from loops.filters import NO_PROJECT, Filter, ProjectFilters, compile_filter
from loops.filters.operators import OPERATORS

RECEIVED = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
GITHUB = "$github_event_received"
SLACK = "$slack_message_received"
NEGATIVE = {"is_not", "not_in", "not_icontains", "not_icontains_multi", "not_regex", "not_between", "is_not_set"}


def event(
    properties: Mapping[str, JsonValue] | None = None,
    *,
    name: str = GITHUB,
    source: str = "github",
    person: Mapping[str, JsonValue] | None = None,
    groups: Mapping[str, JsonValue] | None = None,
) -> Event:
    about = None if person is None else Person("p-1", properties=person)
    held = {} if properties is None else properties
    return Event("0c7a", name, source, "ada", RECEIVED, held, person=about, groups={} if groups is None else groups)


def one(
    key: str, operator: str | None = None, value: Any = None, project: ProjectFilters = NO_PROJECT, **more: Any
) -> Filter:
    """The filter of a single property."""
    entry = {"key": key, "value": value, **more}
    entries: Any = [entry if operator is None else {**entry, "operator": operator}]
    return compile_filter({"properties": entries}, project=project)


def holds(operator: str | None, wanted: Any, actual: Any, key: str = "p", project: ProjectFilters = NO_PROJECT) -> bool:
    return one(key, operator, wanted, project).matches(event({key: actual}))


scalars = (
    st.booleans()
    | st.integers(-3, 12)
    | st.floats(-2, 2)
    | st.sampled_from(["", " ", "5", "5.0", "true", "false", "a", "A", "null", "1.2.3", "2026-03-29", "\ud800"])
    | st.sampled_from(["2026-03-29T02:30:00+02:00", "0001-01-01T00:00+14:00", "1.2.3-beta", 10**400, 1e300])
)
# Whatever JSON an event may hold.
actuals = st.recursive(
    st.none() | scalars | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
_wishes = (
    st.booleans() | st.integers(-3, 12) | st.sampled_from(["", "5", "5.0", "true", "a", "A", "null", "2026-03-29"])
)
_patterns = st.sampled_from(["a", "^5", "(?i)A", ".*", r"\d+\.\d+", "[^a]"])
_numbers = st.sampled_from([0, 1, 2.5, "7"])
_dates = st.sampled_from(["2026-03-29", "2026-03-29T00:30:00Z", "-7d", "-1m", "3h", "-2q", "-30M", "-1y", "-5w", "-9s"])
_versions = st.sampled_from(["1", "1.2", "1.2.3", "0.0.3", "0.2", "2.0.0-rc.1", 1.2])


def _or_list(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=1, max_size=3)


def wishes(operator: str) -> st.SearchStrategy[Any]:
    """Values that an operator takes."""
    positive = OPERATORS[operator].negates or operator
    if positive == "between":
        return st.tuples(_numbers, _numbers).map(lambda pair: sorted(pair, key=float))
    if positive == "regex":
        return _or_list(_patterns)
    if positive.startswith("is_date"):
        return _dates
    if positive == "semver_wildcard":
        return _or_list(st.sampled_from(["1.*", "1.2.*", "0.*"]))
    return _or_list(_versions if positive.startswith("semver") else _wishes)


operators = st.sampled_from(sorted(OPERATORS))
operators_and_wishes = operators.flatmap(lambda name: st.tuples(st.just(name), wishes(name)))
