"""Parts of a stored definition, which may be older than this release, or damaged: nothing about it is trusted."""

from collections.abc import Mapping
from typing import Any

from loops.errors import DefinitionError


def stored_trigger(definition: object) -> Mapping[str, Any]:
    """The config of its trigger, empty where it has none."""
    for action in stored_actions(definition):
        config = action.get("config")
        if action.get("type") == "trigger" and isinstance(config, Mapping):
            return config
    return {}


def stored_actions(definition: object) -> list[Mapping[str, Any]]:
    """Its actions."""
    return _objects(definition, "actions")


def stored_variables(definition: object) -> list[Mapping[str, Any]]:
    """The variables that it declares: each has a `key` and a `type`."""
    return [
        one
        for one in _objects(definition, "variables")
        if isinstance(one.get("key"), str) and isinstance(one.get("type"), str)
    ]


def stored_entry(definition: object) -> str | None:
    """The action that a run begins with: where the first continue edge of its trigger leads, None where none does.
    Raises DefinitionError where it has no trigger."""
    trigger = next((one.get("id") for one in _objects(definition, "actions") if one.get("type") == "trigger"), None)
    if trigger is None:
        raise DefinitionError.at("actions", "the stored definition has no trigger")
    ways = (one for one in _objects(definition, "edges") if one.get("from") == trigger)
    found = next((one.get("to") for one in ways if one.get("type") == "continue" and one.get("index") is None), None)
    return None if found is None else str(found)


def _objects(definition: object, key: str) -> list[Mapping[str, Any]]:
    found = definition.get(key) if isinstance(definition, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
