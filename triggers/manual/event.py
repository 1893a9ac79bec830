"""What a start by hand says: the variables that it sets, and its event."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from loops.definition.findings import nearest, shown
from loops.definition.requested import compile_requested
from loops.definition.stored import stored_trigger, stored_variables
from loops.errors import Conflict, RequestError
from loops.event import Event, JsonValue
from loops.runs.variables import MOST_BYTES, size_of
from triggers.webhook.event import Request, meaning

SOURCE = "manual"
EVENT = "$workflow_triggered"
STARTED_BY_HAND = ("manual", "schedule")
"""The types of triggers that a person may start a run of. The events of all others come from outside."""

_WORDS = {"string": "text", "number": "a number", "boolean": "true or false"}


def trigger_started_by_hand(definition: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The trigger of a stored definition. Raises Conflict where no person may start it."""
    config = stored_trigger(definition)
    if config.get("type") not in STARTED_BY_HAND:
        raise Conflict(
            f"workflow {name!r} is started by events (its trigger is {config.get('type')}), not by hand",
            hint="play one of its deliveries again: loops replay DELIVERY --workflow WORKFLOW",
        )
    return config


def read_variables(definition: Mapping[str, Any], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The variables that a run begins with in place of their defaults. Numbers and booleans may be given as text too,
    as defaults are. RequestError for one that is not declared, that does not fit its type, or where they take too much.
    """
    declared = {one["key"]: one for one in stored_variables(definition)}
    values: dict[str, JsonValue] = {}
    for key, value in given.items():
        if key not in declared:
            hint = nearest(key, declared) or (f"declared: {', '.join(declared)}" if declared else "it declares none")
            raise RequestError(f'the workflow declares no variable "{shown(key)}"', hint=hint, path=f"variables.{key}")
        values[key] = _typed(key, str(declared[key].get("type")), value)
    everything = {key: one.get("default", "") for key, one in declared.items()} | values
    size = size_of(everything)
    if size > MOST_BYTES:
        raise RequestError(
            f"the variables take {size} bytes as JSON; {MOST_BYTES} is the limit",
            hint="shorten them; what is long belongs to where the task can read it",
            path="variables",
        )
    return values


def _typed(key: str, kind: str, value: JsonValue) -> JsonValue:
    read = value
    if kind != "string" and isinstance(value, str):
        try:
            read = json.loads(value, parse_constant=str)
        except (ValueError, RecursionError):
            read = value
    fits = {
        "string": isinstance(read, str),
        "number": isinstance(read, int | float) and not isinstance(read, bool),
        "boolean": isinstance(read, bool),
    }
    if not fits.get(kind, False):
        raise RequestError(f'"{shown(key)}" must be {_WORDS.get(kind, kind)}', path=f"variables.{key}")
    return read


def to_event(
    trigger: Mapping[str, Any], variables: Mapping[str, JsonValue], by: str, uuid: str, now: datetime
) -> Event:
    """The event of a start by hand. `by` is who did it. Raises PayloadMalformed where the trigger's templates make no
    event of it."""
    body: dict[str, JsonValue] = {"user_id": by, "$variables": dict(variables)}
    if trigger.get("type") == "manual":
        meant = meaning(Request("POST", {}, {}, body), compile_requested(trigger))
        return Event(uuid, meant.name, SOURCE, meant.distinct_id, now, meant.properties)
    return Event(uuid, EVENT, SOURCE, by, now, body)
