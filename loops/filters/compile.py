"""The `filters` of a trigger, as they stand in a workflow's JSON, compiled.

They combine as: every entry of `properties` AND one of `events`, each event by its name and its own `properties`.
Everything empty lets every event pass.
"""

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from loops.errors import Fault, FilterError
from loops.event import JsonValue
from loops.filters.comparison import Alternative, Filter, Predicate
from loops.filters.operators import OPERATORS, shown
from loops.filters.predicates import PROPERTY_TYPES, PropertyType

# `bytecode` is the compiled form that PostHog's server keeps beside the filters; it is made anew here, so not read.
_FILTER_KEYS = ("source", "events", "actions", "properties", "filter_test_accounts", "bytecode")
_EVENT_KEYS = ("id", "name", "type", "order", "properties")
_PROPERTY_KEYS = ("key", "value", "operator", "type", "label")
_SOURCES = ("internal-events", "events")


TEST_ACCOUNTS = "test_account_filters"


def compile_filter(
    filters: Mapping[str, JsonValue], *, path: str = "filters", test_accounts: Sequence[JsonValue] = ()
) -> Filter:
    """Compile a trigger's filters; raises FilterError with every fault and its path.

    `test_accounts` are the project's own property filters, which hold besides where the filters say
    `filter_test_accounts`.
    """
    faults: list[Fault] = []
    if not isinstance(filters, Mapping):
        raise FilterError([Fault(path, f"must be an object, got {_kind(filters)}")])
    _check_keys(filters, _FILTER_KEYS, path, faults)
    _check_unsupported(filters, path, faults)
    predicates = _properties(filters.get("properties"), f"{path}.properties", faults)
    if filters.get("filter_test_accounts"):
        predicates += _properties([*test_accounts], TEST_ACCOUNTS, faults)
    wanted = _events(filters.get("events"), f"{path}.events", faults)
    if faults:
        raise FilterError(faults)
    return _assembled(predicates, wanted)


def _assembled(predicates: list[Predicate], wanted: list[Alternative]) -> Filter:
    names = frozenset(alternative.name for alternative in wanted if alternative.name is not None)
    any_name = not wanted or any(alternative.name is None for alternative in wanted)
    # The filters of an only event hold for all that passes, so they may be looked up like the common ones.
    if len(wanted) == 1:
        predicates = [*predicates, *wanted[0].predicates]
    apart = len(wanted) > 1 and any(alternative.predicates for alternative in wanted)
    return Filter(
        event_names=None if any_name else names,
        predicates=tuple(predicates),
        exact=_exact(predicates),
        alternatives=tuple(wanted) if apart else (),
    )


def _exact(predicates: list[Predicate]) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for predicate in predicates:
        if predicate.exact is not None:
            # Two filters that exclude each other keep the first here: that the event fails the second is told then.
            narrowed = found.get(predicate.key, predicate.exact) & predicate.exact
            found[predicate.key] = narrowed or found[predicate.key]
    return MappingProxyType(found)


def _check_unsupported(filters: Mapping[str, JsonValue], path: str, faults: list[Fault]) -> None:
    source = filters.get("source")
    if source is not None and source not in _SOURCES:
        faults.append(Fault(f"{path}.source", f"must be one of {', '.join(_SOURCES)}, got {shown(source)}"))
    if filters.get("actions"):
        hint = "name the events themselves in `events`, each with its own `properties`"
        faults.append(Fault(f"{path}.actions", "PostHog actions are not supported", hint))
    flag = filters.get("filter_test_accounts")
    if flag is not None and not isinstance(flag, bool):
        faults.append(Fault(f"{path}.filter_test_accounts", f"must be true or false, got {_kind(flag)}"))


def _events(entries: JsonValue, path: str, faults: list[Fault]) -> list[Alternative]:
    wanted: list[Alternative] = []
    for place, entry in _objects(entries, path, faults):
        _check_keys(entry, _EVENT_KEYS, place, faults)
        _check_event(entry, place, faults)
        name = entry.get("id")
        predicates = _properties(entry.get("properties"), f"{place}.properties", faults)
        wanted.append(Alternative(name if isinstance(name, str) else None, tuple(predicates)))
    return wanted


def _check_event(entry: Mapping[str, JsonValue], place: str, faults: list[Fault]) -> None:
    name = entry.get("id")
    if "id" not in entry:
        faults.append(Fault(place, "has no `id`", "give the event's name, or null for every event"))
    elif name is not None and (not isinstance(name, str) or not name.strip()):
        faults.append(Fault(f"{place}.id", "must be the name of an event, or null for every event"))
    if entry.get("type", "events") != "events":
        faults.append(Fault(f"{place}.type", f'must be "events", got {shown(entry["type"])}'))


def _properties(entries: JsonValue, path: str, faults: list[Fault]) -> list[Predicate]:
    compiled = (_predicate(entry, place, faults) for place, entry in _objects(entries, path, faults))
    return [predicate for predicate in compiled if predicate is not None]


def _predicate(entry: Mapping[str, JsonValue], place: str, faults: list[Fault]) -> Predicate | None:
    """One property filter, or None with its faults noted."""
    before = len(faults)
    _check_keys(entry, _PROPERTY_KEYS, place, faults)
    key, value = entry.get("key"), entry.get("value")
    if not isinstance(key, str) or not key:
        faults.append(Fault(f"{place}.key", "must be the name of a property"))
        return None
    read_as = _property_type(key, entry.get("type"), place, faults)
    name = _operator(entry.get("operator"), value, place, faults)
    if read_as is None or name is None or len(faults) > before:
        return None
    return read_as.predicate(key, name, json.dumps(value if OPERATORS[name].wants_value else None))


def _property_type(key: str, kind: JsonValue, place: str, faults: list[Fault]) -> PropertyType | None:
    kind = "event" if kind is None else kind
    found = PROPERTY_TYPES.get(kind) if isinstance(kind, str) else None
    if found is None:
        hint = f"supported now: {', '.join(PROPERTY_TYPES)}"
        faults.append(Fault(f"{place}.type", f"filters of type {shown(kind)} are not supported", hint))
    elif found.keys is not None and key not in found.keys:
        faults.append(Fault(f"{place}.key", f"{kind} has no {shown(key)}", f"it has {', '.join(found.keys)}"))
    return found


def _operator(name: JsonValue, value: JsonValue, place: str, faults: list[Fault]) -> str | None:
    name = "exact" if name is None else name
    if not isinstance(name, str) or name not in OPERATORS:
        hint = f"supported now: {', '.join(OPERATORS)}"
        faults.append(Fault(f"{place}.operator", f"{shown(name)} is not a supported operator", hint))
        return None
    operator = OPERATORS[name]
    if operator.wants_value and (fault := operator.fault(value)):
        hint = "to ask whether there is a value at all, use is_set or is_not_set" if value in (None, []) else ""
        faults.append(Fault(f"{place}.value", fault, hint))
    return name


def _objects(entries: JsonValue, path: str, faults: list[Fault]) -> list[tuple[str, Mapping[str, JsonValue]]]:
    if entries is None:
        return []
    if not isinstance(entries, list):
        faults.append(Fault(path, f"must be a list, got {_kind(entries)}"))
        return []
    found: list[tuple[str, Mapping[str, JsonValue]]] = []
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            found.append((f"{path}[{number}]", entry))
        else:
            faults.append(Fault(f"{path}[{number}]", f"must be an object, got {_kind(entry)}"))
    return found


def _check_keys(entry: Mapping[str, JsonValue], known: Collection[str], place: str, faults: list[Fault]) -> None:
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            faults.append(Fault(f"{place}.{key}", "is not a known key", hint))


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
