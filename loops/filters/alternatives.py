"""`events` and `actions`: of all their entries one must hold, each by the event's name and its own filters.

An action is a saved set of steps of which one must hold, so that each of its steps is an alternative.
"""

from collections.abc import Mapping

from loops.event import JsonValue
from loops.expressions.coercion import to_text
from loops.filters.comparison import Alternative, Condition
from loops.filters.entries import Reading, conditions
from loops.filters.operators import shown
from loops.filters.shape import check_keys, objects

_EVENT_KEYS = ("id", "name", "type", "order", "properties")
_ACTION_KEYS = ("id", "name", "type", "order", "properties", "steps")
_STEP_KEYS = (
    *("id", "name", "event", "properties", "url", "url_matching", "selector"),
    *("tag_name", "text", "text_matching", "href", "href_matching"),
)
_MATCHING = {"exact": "exact", "contains": "icontains", "regex": "regex"}
# What a step asks for besides the event and its properties: the type and the key that are read, and how it is
# compared where the step does not say.
_STEP_PARTS = {
    "url": ("event", "$current_url", "contains"),
    "selector": ("element", "selector", "exact"),
    "tag_name": ("element", "tag_name", "exact"),
    "text": ("element", "text", "exact"),
    "href": ("element", "href", "exact"),
}


def wanted_events(entries: JsonValue, path: str, reading: Reading) -> list[Alternative]:
    """One alternative for each entry of `events`."""
    wanted: list[Alternative] = []
    for place, entry in objects(entries, path, reading.faults):
        check_keys(entry, _EVENT_KEYS, place, reading.faults)
        _check_event(entry, place, reading)
        name = entry.get("id")
        own = conditions(entry.get("properties"), f"{place}.properties", reading)
        wanted.append(Alternative(name if isinstance(name, str) else None, tuple(own)))
    return wanted


def _check_event(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> None:
    name = entry.get("id")
    if "id" not in entry:
        reading.refuse(place, "has no `id`", "give the event's name, or null for every event")
    elif name is not None and (not isinstance(name, str) or not name.strip()):
        reading.refuse(f"{place}.id", "must be the name of an event, or null for every event")
    if entry.get("type", "events") != "events":
        reading.refuse(f"{place}.type", f'must be "events", got {shown(entry["type"])}')


def wanted_actions(entries: JsonValue, path: str, reading: Reading) -> list[Alternative]:
    """One alternative for each step of each entry of `actions`."""
    wanted: list[Alternative] = []
    for place, entry in objects(entries, path, reading.faults):
        check_keys(entry, _ACTION_KEYS, place, reading.faults)
        if entry.get("type", "actions") != "actions":
            reading.refuse(f"{place}.type", f'must be "actions", got {shown(entry["type"])}')
        own = conditions(entry.get("properties"), f"{place}.properties", reading)
        for inner, step in _steps(entry, place, reading):
            wanted.append(_alternative(step, inner, own, reading))
    return wanted


def _steps(entry: Mapping[str, JsonValue], place: str, reading: Reading) -> list[tuple[str, Mapping[str, JsonValue]]]:
    name = entry.get("id")
    steps, where = entry.get("steps"), f"{place}.steps"
    if "steps" not in entry:
        saved = reading.project.actions.get(to_text(name)) if isinstance(name, (str, int)) else None
        if saved is None:
            hint = "write the action's steps here as `steps`, or name the events themselves in `events`"
            reading.refuse(place, f"the action {shown(name)} is not known here", hint)
            return []
        steps, where = saved.get("steps"), f"project.actions.{to_text(name)}.steps"
    if not steps:
        reading.refuse(where, "is empty, so that every event would be the action", "say what the action is")
    return objects(steps, where, reading.faults)


def _alternative(step: Mapping[str, JsonValue], place: str, own: list[Condition], reading: Reading) -> Alternative:
    check_keys(step, _STEP_KEYS, place, reading.faults)
    name = step.get("event")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        reading.refuse(f"{place}.event", "must be the name of an event, or null for every event")
    asked = [*own, *conditions(step.get("properties"), f"{place}.properties", reading)]
    for part in _STEP_PARTS:
        asked += _part(step, part, place, reading)
    return Alternative(name if isinstance(name, str) else None, tuple(asked))


def _part(step: Mapping[str, JsonValue], part: str, place: str, reading: Reading) -> list[Condition]:
    """What a step asks for by one of its own keys; an empty text asks for nothing."""
    value = step.get(part)
    if value is None or value == "":
        return []
    kind, key, usual = _STEP_PARTS[part]
    matching = step.get(f"{part}_matching") or usual
    if not isinstance(matching, str) or matching not in _MATCHING:
        hint = f"use {', '.join(_MATCHING)}"
        reading.refuse(f"{place}.{part}_matching", f"{shown(matching)} is no way of matching", hint)
        return []
    if not isinstance(value, str):
        reading.refuse(f"{place}.{part}", f"must be text, got {shown(value)}")
        return []
    before = len(reading.faults)
    entry: JsonValue = {"key": key, "value": value, "operator": _MATCHING[matching], "type": kind}
    found = conditions([entry], f"{place}.{part}", reading)
    # The faults are in the value alone, and it stands at the step's own key.
    reading.faults[before:] = [
        type(fault)(f"{place}.{part}", fault.message, fault.hint) for fault in reading.faults[before:]
    ]
    return found
