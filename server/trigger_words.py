"""What starts a workflow, in words: for the pages, the API and the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loops.event import JsonValue
from loops.filters.operators import OPERATORS, each, shown

_SOURCES = {"$github_event_received": "GitHub", "$slack_message_received": "Slack"}
_STARTS = {"schedule": "On a schedule", "manual": "By hand", "webhook": "A request to its own URL"}


def wanted_words(operator: str, expected: JsonValue) -> str:
    """What a property filter asks for."""
    known = OPERATORS.get(operator)
    return known.wanted(expected) if known else f"{operator} {shown(expected)}"


@dataclass(frozen=True, slots=True)
class TriggerWords:
    """What starts a workflow: its kind, and each thing that must be true of the event."""

    kind: str
    conditions: tuple[tuple[str, str], ...] = ()


def trigger_words(definition: Mapping[str, Any]) -> TriggerWords:
    """The trigger of a stored definition, which has passed every check but may be of another release."""
    actions = _mappings(definition.get("actions"))
    config = next((action.get("config") for action in actions if action.get("type") == "trigger"), None)
    if not isinstance(config, Mapping):
        return TriggerWords("No trigger")
    kind = str(config.get("type"))
    if kind in _STARTS:
        return TriggerWords(_STARTS[kind])
    filters = config.get("filters")
    return _event_words(filters) if isinstance(filters, Mapping) else TriggerWords("Any event")


def _event_words(filters: Mapping[str, Any]) -> TriggerWords:
    events, meant = _mappings(filters.get("events")), _mappings(filters.get("actions"))
    names = [_SOURCES.get(str(event.get("id")), str(event.get("id"))) for event in events if event.get("id")]
    names += [f"the action {action.get('name') or action.get('id')}" for action in meant]
    properties = _properties(filters)
    for wanted in (*events, *meant):
        properties += _properties(wanted)
    kind = " or ".join(names) or "Any event"
    types = [one for one in properties if _names(one, "event_type")]
    if len(types) == 1:
        kind = f"{kind}: {_alternatives(types[0])}"
        properties.remove(types[0])
        actions = [one for one in properties if _names(one, "action")]
        # Of several types nobody can tell which one the action is meant of.
        if len(actions) == 1 and len(each(types[0].get("value"))) == 1:
            kind = f"{kind} {_alternatives(actions[0])}"
            properties.remove(actions[0])
    conditions = [_condition_words(one) for one in properties]
    if filters.get("filter_test_accounts") is True:
        conditions.append(("test accounts", "left out"))
    return TriggerWords(kind, tuple(conditions))


def _properties(wanted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The property filters of an entry; a group may stand alone."""
    own = wanted.get("properties")
    return _mappings([own] if isinstance(own, Mapping) else own)


def _condition_words(entry: Mapping[str, Any]) -> tuple[str, str]:
    """A property filter or a group of them: what is asked, and what is wanted."""
    if "values" in entry:
        inner = "; ".join(" ".join(_condition_words(one)) for one in _mappings(entry["values"]))
        return "one of" if entry.get("type") == "OR" else "all of", f"({inner})"
    key, kind = str(entry.get("key")), entry.get("type")
    if kind == "hogql":
        return key, "true"
    if kind in ("person", "element"):
        key = f"{kind}.{key}"
    elif kind == "group":
        key = f"group_{entry.get('group_type_index')}.{key}"
    return key, wanted_words(str(entry.get("operator") or "exact"), entry.get("value"))


def _names(filtered: Mapping[str, Any], key: str) -> bool:
    return filtered.get("key") == key and filtered.get("operator") in {None, "exact"}


def _alternatives(filtered: Mapping[str, Any]) -> str:
    return " or ".join(str(value) for value in each(filtered.get("value")))


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
