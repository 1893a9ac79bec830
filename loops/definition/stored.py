"""Parts of a stored definition, which may be older than this release, or damaged: nothing about it is trusted."""

from collections.abc import Mapping
from typing import Any


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


def _objects(definition: object, key: str) -> list[Mapping[str, Any]]:
    found = definition.get(key) if isinstance(definition, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
