"""Filters that no event, or every event, satisfies: names that events do not have, values that a property never has,
and filters that contradict each other."""

import re
from collections.abc import Iterator

from loops.definition.asked import Asked, Listening
from loops.definition.findings import join, listed, nearest, shown
from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT
from loops.definition.vocabulary import ACTIONS, EVENT_TYPES, NEVER_SET, PROPERTIES, VALUES
from loops.errors import Fault, TemplateError
from loops.event import JsonValue
from loops.expressions import compile_expression
from loops.expressions.coercion import to_text

_OF_PERSONS = frozenset({"person", "group", "cohort", "element"})
_IN_EXPRESSION = re.compile(r"properties\.([A-Za-z_$][\w$]*)", re.ASCII)
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]+")
_PATH_INSIDE = frozenset({"github_event", "slack_event"})


def unknown_properties(one: Listening) -> Iterator[Fault]:
    """Names that events of this kind do not have."""
    known = PROPERTIES.get(one.name or "")
    if known is None:
        return
    for asked in one.asked:
        if asked.kind == "event" and asked.key not in known:
            yield Fault(join(asked.path, "key"), _unknown(asked, one.name or ""), _meant(asked.key, known))
        elif asked.kind == "hogql":
            for name in sorted({*_read_in(asked.key)} - {*known}):
                said = f"reads properties.{shown(name)}, and {one.name} has no such property"
                yield Fault(join(asked.path, "key"), said, _meant(name, known))


def _unknown(asked: Asked, event: str) -> str:
    follows = "never matches" if asked.needs_value else "holds nothing back"
    return f'"{shown(asked.key)}" is no property of {event}: the filter {follows}'


def _meant(key: str, known: tuple[str, ...]) -> str:
    root = key.partition(".")[0]
    if root in _PATH_INSIDE and root != key:
        return f'what lies inside the payload is asked by an expression: "key": "properties.{shown(key)} = \'…\'", "type": "hogql"'  # noqa: E501
    return nearest(key, known) or f"it has {listed(known)}"


def _read_in(source: str) -> Iterator[str]:
    try:
        paths = compile_expression(source).paths
    except TemplateError:  # refused elsewhere
        return
    for path in paths:
        if found := _IN_EXPRESSION.match(path):
            yield found[1]


def personless_filters(one: Listening) -> Iterator[Fault]:
    """Filters on what only PostHog's events have."""
    if one.name not in PROPERTIES:
        return
    for asked in one.asked:
        if asked.kind in _OF_PERSONS:
            follows = "never matches" if asked.needs_value else "holds nothing back"
            yield Fault(
                join(asked.path, "type"),
                f"{one.name} has no {asked.kind}: the filter {follows}",
                "filter by properties of the event, with the type event",
            )


def impossible_values(one: Listening) -> Iterator[Fault]:
    """Values that the property never has."""
    for asked in one.asked:
        if asked.kind == "event" and asked.any_of:
            for value in asked.values:
                complaint = _complaint(one, asked.key, value)
                if complaint is not None:
                    yield Fault(join(asked.path, "value"), *complaint)


def _complaint(one: Listening, key: str, value: JsonValue) -> tuple[str, str] | None:
    text = to_text(value)
    allowed = VALUES.get(one.name or "", {}).get(key)
    if allowed is not None and text not in allowed:
        return f'{key} is never "{shown(text)}"', nearest(text, allowed) or f"it is {' or '.join(allowed)}"
    if one.name == GITHUB_EVENT:
        return _github_complaint(one, key, text)
    if one.name == SLACK_EVENT and key == "channel" and not _CHANNEL_ID.fullmatch(text):
        search = text.removeprefix("#")
        return (
            f'"{shown(text)}" is no id of a channel, and messages name their channel by its id',
            f"loops integrations channels <connection> --search {shown(search)}",
        )
    return None


def _github_complaint(one: Listening, key: str, text: str) -> tuple[str, str] | None:
    if key == "repository" and text.count("/") != 1:
        return f'"{shown(text)}" is no repository: they are owner/name', "write it as acme/widgets"
    if key == "event_type" and text not in EVENT_TYPES and (near := nearest(text, EVENT_TYPES)):
        return f'GitHub sends no "{shown(text)}"', near
    if key == "action":
        types = _event_types(one)
        actions = [action for name in types for action in ACTIONS.get(name, ())]
        if types and all(name in ACTIONS for name in types) and text not in actions:
            if not actions:
                return f"{listed(sorted(types))} has no action", "leave the filter out"
            return f'{listed(sorted(types))} has no action "{shown(text)}"', nearest(
                text, actions
            ) or f"it has {listed(dict.fromkeys(actions))}"
    return None


def never_set(one: Listening) -> Iterator[Fault]:
    """Filters on a property that deliveries of these names do not have."""
    types = _event_types(one)
    if one.name != GITHUB_EVENT or not types or not all(name in NEVER_SET for name in types):
        return
    for asked in one.asked:
        lacking = asked.kind == "event" and all(asked.key in NEVER_SET[name] for name in types)
        if lacking and asked.needs_value and asked.key != "action":
            yield Fault(asked.path, f"{listed(sorted(types))} has no {asked.key}: the filter never matches")


def _event_types(one: Listening) -> set[str]:
    """The names of deliveries that are listened to; none where filters do not tell."""
    wanted = [{to_text(value) for value in asked.values} for asked in one.musts("event_type") if asked.any_of]
    return set.intersection(*wanted) if wanted else set()


def contradictions(one: Listening) -> Iterator[Fault]:
    """Filters on one property that no value satisfies together."""
    seen: dict[tuple[str, str], list[Asked]] = {}
    for asked in one.asked:
        if asked.must and asked.kind not in {"hogql", "cohort"}:
            before = seen.setdefault((asked.kind, asked.key), [])
            before.append(asked)
            if len(before) > 1 and not _together(before):
                yield Fault(asked.path, f"contradicts {before[-2].path}: no {shown(asked.key)} satisfies both")


def _together(filters: list[Asked]) -> bool:
    if any(one.operator == "is_not_set" for one in filters) and any(one.needs_value for one in filters):
        return False
    wanted = [{_same(one.key, value) for value in one.values} for one in filters if one.any_of]
    if not wanted:
        return True
    refused = {_same(one.key, value) for one in filters if one.none_of for value in one.values}
    return bool(set.intersection(*wanted) - refused)


def _same(key: str, value: JsonValue) -> str | float:
    """What two values have in common that are equal to a filter."""
    text = to_text(value)
    if key == "repository":
        return text.lower()
    try:
        return float(text)
    except ValueError:
        return text
