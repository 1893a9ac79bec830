"""The schemas of what tools take, in the few words of JSON Schema that `arguments` can explain."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from server.api.call import MOST_ITEMS

Schema: TypeAlias = Mapping[str, Any]

_LONGEST_ID = 300
_LONGEST_CURSOR = 300
_USUAL_ITEMS = 20
"""Fewer than over HTTP: whoever reads it here has to keep it in mind."""


def text(means: str, longest: int = 1_000) -> Schema:
    """A text that says something."""
    return {"type": "string", "minLength": 1, "maxLength": longest, "description": means}


def identity(means: str) -> Schema:
    """The id of something."""
    return text(means, _LONGEST_ID)


def number_or_text(means: str) -> Schema:
    """The id of a connection, as 7 or as "7"."""
    return {**identity(means), "type": ["string", "integer"]}


def whole(means: str, least: int, most: int, usual: int | None = None) -> Schema:
    """A whole number within bounds."""
    schema = {"type": "integer", "minimum": least, "maximum": most, "description": means}
    return schema if usual is None else {**schema, "default": usual}


def choice(means: str, *words: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words), "description": means}


def switch(means: str, *, usual: bool) -> Schema:
    """True or false."""
    return {"type": "boolean", "default": usual, "description": means}


def open_object(means: str) -> Schema:
    """An object with keys of its own."""
    return {"type": "object", "description": means}


def objects(means: str) -> Schema:
    """A list of objects."""
    return {"type": "array", "items": {"type": "object", "description": means}, "description": means}


def takes(*required: str, **properties: Schema) -> Schema:
    """The arguments of a tool."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def freely(taken: Schema) -> Schema:
    """The same, with others beside them."""
    return {**taken, "additionalProperties": True}


PAGE: Mapping[str, Schema] = {
    "limit": whole("How many at most.", 1, MOST_ITEMS, _USUAL_ITEMS),
    "cursor": text("`next` of the page before, to go on there.", _LONGEST_CURSOR),
}
OFFSETS: Mapping[str, Schema] = {
    "limit": whole("How many at most.", 1, MOST_ITEMS, _USUAL_ITEMS),
    "offset": whole("How many to pass over: `next` of the page before.", 0, 999_999),
}
