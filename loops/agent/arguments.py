"""The arguments of a call: from the text that a model wrote to a value that its tool takes."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

from loops.agent.tools.tool import ToolError
from loops.storable import storable, storable_text

_SHOWN = 120
_OBJECT = "write the arguments as one JSON object"


def read_arguments(text: str) -> Mapping[str, Any]:
    """The object in `text`. Raises ToolError with BAD_JSON or BAD_ARGUMENTS.

    No text at all means no arguments, and an object that was written into a JSON string is taken out of it: both are
    common, and neither can mean anything else. Nothing else is guessed at.
    """
    if not text.strip():
        return {}
    value = _parsed(text)
    if isinstance(value, str):
        value = _inner(value)
    if not isinstance(value, dict):
        raise ToolError("BAD_ARGUMENTS", f"the arguments are {_kind(value)}, not an object", _OBJECT)
    try:
        return {storable_text(key): storable(item) for key, item in value.items()}
    except RecursionError:
        raise ToolError("BAD_JSON", "the arguments are nested too deep", _OBJECT) from None


def _inner(value: str) -> object:
    try:
        inner = _parsed(value)
    except ToolError:
        return value
    return inner if isinstance(inner, dict) else value


def _parsed(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise ToolError("BAD_JSON", "the arguments are nested too deep", _OBJECT) from None
    except ValueError as error:
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        raise ToolError("BAD_JSON", f"the arguments are no JSON: {error}; they begin with {shown!r}", _OBJECT) from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _number(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_number(text)


def _kind(value: object) -> str:
    match value:
        case str():
            return "a string"
        case list():
            return "an array"
        case bool():
            return "a boolean"
        case None:
            return "null"
        case _:
            return "a number"
