"""The entries of `properties`: property filters, groups of them, expressions and cohorts, each to a condition."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from config.closest import closest
from loops.errors import Fault, FilterError
from loops.event import JsonValue
from loops.expressions.coercion import to_text
from loops.filters.comparison import AnyOf, Condition
from loops.filters.judgement import judgement, membership
from loops.filters.operators import OPERATORS, each, shown
from loops.filters.predicates import PROPERTY_TYPES, Asked, PropertyType, predicate
from loops.filters.project import NO_PROJECT, ProjectFilters
from loops.filters.scope import GROUPS
from loops.filters.selector import compile_selector
from loops.filters.shape import check_keys, kind_of, objects

_PROPERTY_KEYS = ("key", "value", "operator", "type", "label", "group_type_index", "group_key_names", "negation")
_GROUP_KEYS = ("type", "values")
_DEEPEST = 20

# Types of PostHog's that an event alone cannot answer, and what to do instead.
_ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "flag": (
        "what a feature flag says of a person is known to PostHog alone",
        "filter by the property $feature/<name>",
    ),
    "behavioral": ("what a person did before is known to PostHog alone", "filter by properties of the event"),
    "static-cohort": ("the members of a static cohort are known to PostHog alone", "filter by person properties"),
}


@dataclass(slots=True)
class Reading:
    """One pass over filters. `of_run` is true where they are asked inside a run, which has variables; `nested` where
    dotted keys of events are paths."""

    project: ProjectFilters = NO_PROJECT
    of_run: bool = False
    nested: bool = False
    faults: list[Fault] = field(default_factory=list)
    depth: int = 0

    def refuse(self, path: str, message: str, hint: str = "") -> None:
        self.faults.append(Fault(path, message, hint))


def conditions(entries: JsonValue, path: str, reading: Reading) -> list[Condition]:
    """What all must hold: the entries of a list, or a group of them."""
    if isinstance(entries, Mapping) and "values" in entries:
        return _group(entries, path, reading)
    return [one for place, entry in objects(entries, path, reading.faults) for one in _entry(entry, place, reading)]


def _entry(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> list[Condition]:
    if "values" in entry:
        return _group(entry, place, reading)
    kind = "event" if entry.get("type") is None else entry["type"]
    if kind == "empty":  # an editor's row that nobody filled in
        return []
    try:
        if kind == "hogql":
            return _expression(entry, place, reading)
        found = _cohort(entry, place, reading) if kind == "cohort" else _property(entry, kind, place, reading)
    except FilterError as error:
        reading.faults.extend(error.faults)
        return []
    return [] if found is None else [found]


def _group(group: Mapping[str, JsonValue], place: str, reading: Reading) -> list[Condition]:
    """`{"type": "AND" or "OR", "values": [...]}`; an empty one asks for nothing."""
    check_keys(group, _GROUP_KEYS, place, reading.faults)
    kind = group.get("type")
    if kind not in ("AND", "OR"):
        reading.refuse(f"{place}.type", f'must be "AND" or "OR" for a group, got {shown(kind)}')
        return []
    if reading.depth >= _DEEPEST:
        reading.refuse(place, f"is a group inside {_DEEPEST} others", "nest less")
        return []
    reading.depth += 1
    branches = [
        _entry(entry, inner, reading)
        for inner, entry in objects(group.get("values"), f"{place}.values", reading.faults)
    ]
    reading.depth -= 1
    if kind == "AND":
        return [one for branch in branches for one in branch]
    return [AnyOf(tuple(tuple(branch) for branch in branches))] if branches else []


def _expression(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> list[Condition]:
    check_keys(entry, _PROPERTY_KEYS, place, reading.faults)
    source = entry.get("key")
    if not isinstance(source, str) or not source.strip():
        reading.refuse(f"{place}.key", "must be an expression", "such as properties.amount > 100")
        return []
    if entry.get("operator") not in (None, "exact"):
        reading.refuse(f"{place}.operator", "has no meaning beside an expression", "leave it out")
        return []
    return [judgement(source, reading.project, f"{place}.key", with_variables=reading.of_run)]


def _cohort(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> Condition | None:
    """A cohort whose definition is known and asks for nothing but the person, written out."""
    check_keys(entry, _PROPERTY_KEYS, place, reading.faults)
    name = entry.get("value")
    name = name[0] if isinstance(name, list) and len(name) == 1 else name
    operator = entry.get("operator") or "in"
    if operator not in ("in", "not_in", "exact", "is_not"):
        reading.refuse(f"{place}.operator", f"{shown(operator)} cannot be asked of a cohort", "use in or not_in")
        return None
    known = reading.project.cohorts.get(to_text(name)) if isinstance(name, (str, int)) else None
    if known is None:
        reading.refuse(
            place,
            f"membership in cohort {shown(name)} cannot be known when an event arrives",
            "write what its members have in common as filters of type person",
        )
        return None
    members = _members(known, f"project.cohorts.{to_text(name)}", reading)
    negated = (operator in ("not_in", "is_not")) is not (entry.get("negation") is True)
    return membership(known.get("name") or name, tuple(members), negated=negated)


def _members(cohort: Mapping[str, JsonValue], path: str, reading: Reading) -> list[Condition]:
    group = {key: value for key, value in cohort.items() if key in _GROUP_KEYS}
    before = len(reading.faults)
    if "values" not in group:
        reading.refuse(path, "is no cohort of person properties", "give its conditions as a group with values")
    _only_of_persons(group, path, reading)
    return [] if len(reading.faults) > before else _group(group, path, reading)


def _only_of_persons(group: Mapping[str, JsonValue], path: str, reading: Reading) -> None:
    for place, entry in objects(group.get("values"), f"{path}.values", reading.faults):
        if "values" in entry:
            _only_of_persons(entry, place, reading)
        elif entry.get("type") != "person":
            reading.refuse(f"{place}.type", f"a cohort is made of person filters here, not {shown(entry.get('type'))}")


def _property(entry: Mapping[str, JsonValue], kind: JsonValue, place: str, reading: Reading) -> Condition | None:
    """One property filter, or None with its faults noted."""
    before = len(reading.faults)
    check_keys(entry, _PROPERTY_KEYS, place, reading.faults)
    if entry.get("negation") not in (None, False):
        reading.refuse(f"{place}.negation", "is for cohorts alone", "use a negative operator such as is_not")
    key, value = entry.get("key"), entry.get("value")
    if not isinstance(key, str) or not key:
        reading.refuse(f"{place}.key", "must be the name of a property")
        return None
    read_as = _property_type(key, kind, place, reading)
    name = _operator(entry.get("operator"), value, place, reading)
    if read_as is None or name is None:
        return None
    _check_fit(read_as, key, name, value, place, reading)
    group = _group_index(entry, place, reading) if read_as.grouped else 0
    if len(reading.faults) > before:
        return None
    operator = OPERATORS[name]
    project = reading.project if operator.by_project else NO_PROJECT
    asked = Asked(key, name, json.dumps(value if operator.wants_value else None), group, reading.nested)
    return predicate(str(kind), asked, project)


def _check_fit(read_as: PropertyType, key: str, operator: str, value: JsonValue, place: str, reading: Reading) -> None:
    if key in read_as.only_exact and operator not in ("exact", "is_not"):
        reading.refuse(f"{place}.operator", f"{operator} cannot be asked of {key}", "use exact or is_not")
    elif key in read_as.only_exact and key == "selector":
        for one in each(value):
            compile_selector(to_text(one), path=f"{place}.value")


def _group_index(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> int:
    index = entry.get("group_type_index")
    if isinstance(index, bool) or not isinstance(index, int) or index not in GROUPS:
        hint = "the types of groups are counted from 0"
        reading.refuse(
            f"{place}.group_type_index", f"must be a number from 0 to {GROUPS[-1]}, got {shown(index)}", hint
        )
        return 0
    return index


def _property_type(key: str, kind: JsonValue, place: str, reading: Reading) -> PropertyType | None:
    found = PROPERTY_TYPES.get(kind) if isinstance(kind, str) else None
    if found is None:
        message, hint = f"filters of type {shown(kind)} are not supported", f"supported: {', '.join(supported_types())}"
        if isinstance(kind, str) and kind in _ELSEWHERE:
            why, hint = _ELSEWHERE[kind]
            message = f"{message}: {why}"
        reading.refuse(f"{place}.type", message, hint)
    elif found.keys is not None and key not in found.keys:
        reading.refuse(f"{place}.key", f"{kind} has no {shown(key)}", f"it has {', '.join(found.keys)}")
    elif found.of_run and not reading.of_run:
        reading.refuse(
            f"{place}.type",
            "no run has begun yet when a trigger is matched, so no variable has a value",
            "filter by properties of the event",
        )
    return found


def supported_types() -> tuple[str, ...]:
    """Every type that an entry may have."""
    return (*PROPERTY_TYPES, "hogql", "cohort")


def _operator(name: JsonValue, value: JsonValue, place: str, reading: Reading) -> str | None:
    name = "exact" if name is None else name
    if not isinstance(name, str) or name not in OPERATORS:
        near = closest(name, OPERATORS) if isinstance(name, str) else None
        hint = f"did you mean {near}?" if near else f"supported: {', '.join(OPERATORS)}"
        reading.refuse(f"{place}.operator", f"{shown(name)} is not a supported operator", hint)
        return None
    operator = OPERATORS[name]
    complaint = operator.fault(value) if operator.wants_value else None
    if complaint is not None:
        reading.refuse(f"{place}.value", *complaint)
    return name


def must_be_object(value: object) -> str:
    """What is said of filters that are no object."""
    return f"must be an object, got {kind_of(value)}"
