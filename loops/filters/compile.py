"""The `filters` of a trigger or a condition, as they stand in a workflow's JSON, compiled.

They combine as: the project's test-account filters, where they are asked for, AND every entry of `properties` AND one
of `events` and `actions`, each by its name and its own `properties`. Everything empty lets every event pass.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from loops.errors import FilterError
from loops.event import JsonValue
from loops.filters.alternatives import wanted_actions, wanted_events
from loops.filters.comparison import Alternative, Condition, Filter
from loops.filters.entries import Reading, conditions, must_be_object
from loops.filters.judgement import Judgement
from loops.filters.operators import shown
from loops.filters.project import NO_PROJECT, ProjectFilters
from loops.filters.shape import check_keys

# `bytecode` is the compiled form that PostHog's server keeps beside the filters; it is made anew here, so not read.
_FILTER_KEYS = ("source", "events", "actions", "properties", "filter_test_accounts", "bytecode")
_CONDITION_KEYS = ("properties", "filter_test_accounts", "bytecode")
_SOURCES = ("internal-events", "events")
# The one event whose dotted keys are paths.
_NESTED_EVENT = "$activity_log_entry_created"


def compile_filter(
    filters: Mapping[str, JsonValue], *, path: str = "filters", project: ProjectFilters = NO_PROJECT
) -> Filter:
    """Compile a trigger's filters; raises FilterError with every fault and its path."""
    reading = Reading(project)
    if not isinstance(filters, Mapping):
        reading.refuse(path, must_be_object(filters))
        raise FilterError(reading.faults)
    check_keys(filters, _FILTER_KEYS, path, reading.faults)
    source = filters.get("source")
    if source is not None and source not in _SOURCES:
        reading.refuse(f"{path}.source", f"must be one of {', '.join(_SOURCES)}, got {shown(source)}")
    reading.nested = _only_nested(filters)
    asked = _asked(filters, path, reading)
    wanted = wanted_events(filters.get("events"), f"{path}.events", reading)
    wanted += wanted_actions(filters.get("actions"), f"{path}.actions", reading)
    if reading.faults:
        raise FilterError(reading.faults)
    return _assembled(asked, wanted)


def compile_condition(
    filters: Mapping[str, JsonValue], *, path: str = "filters", project: ProjectFilters = NO_PROJECT
) -> Filter:
    """Compile the filters of a condition inside a run: they see its variables, and name no events.

    Give `matches` and `explain` of what comes back the run's variables. Raises FilterError.
    """
    reading = Reading(project, of_run=True)
    if not isinstance(filters, Mapping):
        reading.refuse(path, must_be_object(filters))
        raise FilterError(reading.faults)
    rest = dict(filters)
    for key in ("events", "actions"):
        if rest.pop(key, None):
            hint = "filter by properties; the event that started the run stays the same"
            reading.refuse(f"{path}.{key}", "cannot be asked for by a condition", hint)
    check_keys(rest, _CONDITION_KEYS, path, reading.faults)
    asked = _asked(filters, path, reading)
    if reading.faults:
        raise FilterError(reading.faults)
    return _assembled(asked, [])


def _asked(filters: Mapping[str, JsonValue], path: str, reading: Reading) -> list[Condition]:
    """What every event must fulfil, whatever its name."""
    wish = filters.get("filter_test_accounts")
    if wish is not None and not isinstance(wish, bool):
        reading.refuse(f"{path}.filter_test_accounts", f"must be true or false, got {shown(wish)}")
    asked: list[Condition] = []
    if wish is True:
        asked += conditions([*reading.project.test_accounts], "project.test_accounts", reading)
    return asked + conditions(filters.get("properties"), f"{path}.properties", reading)


def _only_nested(filters: Mapping[str, JsonValue]) -> bool:
    events = filters.get("events")
    names = [one.get("id") for one in events if isinstance(one, Mapping)] if isinstance(events, list) else []
    return bool(names) and not filters.get("actions") and all(name == _NESTED_EVENT for name in names)


def _assembled(asked: list[Condition], wanted: list[Alternative]) -> Filter:
    names = frozenset(alternative.name for alternative in wanted if alternative.name is not None)
    any_name = not wanted or any(alternative.name is None for alternative in wanted)
    # The filters of an only event hold for all that passes, so they may be looked up like the common ones.
    if len(wanted) == 1:
        asked = [*asked, *wanted[0].predicates]
    apart = len(wanted) > 1 and any(alternative.predicates for alternative in wanted)
    if any_name and not apart and len(asked) == 1 and isinstance(asked[0], Judgement):
        asked = [asked[0].alone()]
    return Filter(
        event_names=None if any_name else _shared(names),
        predicates=tuple(asked),
        exact=_exact(asked),
        alternatives=tuple(wanted) if apart else (),
    )


def _exact(asked: list[Condition]) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for condition in asked:
        if condition.exact is not None:
            # Two filters that exclude each other keep the first here: that the event fails the second is told then.
            before = found.get(condition.key)
            found[condition.key] = condition.exact if before is None else (before & condition.exact) or before
    return MappingProxyType(found)


@lru_cache(maxsize=1024)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """The same object for the same names: nearly all workflows name the same few events."""
    return names
