"""Arguments held against a tool's schema: every fault with its place and what mends it.

The library finds the faults. What they are called is ours: its words quote what was sent, at any length.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from loops.definition.findings import few_suggestions, join, nearest, shown
from loops.errors import ArgumentsRefused, Fault
from server.mcp.tool import Tool

_MOST_FAULTS = 20
_KINDS: Mapping[str, str] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "object": "an object",
    "string": "a text",
}
_OF_PYTHON: Mapping[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "a text",
    type(None): "null",
}


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Raises ArgumentsRefused with the faults, the first 20 of them."""
    errors = Draft202012Validator(dict(tool.takes)).iter_errors(dict(arguments))
    with few_suggestions():
        found = set(islice(chain.from_iterable(map(_faults, errors)), _MOST_FAULTS))
    if found:
        raise ArgumentsRefused(sorted(found, key=lambda fault: fault.path))


def _faults(error: ValidationError) -> Iterator[Fault]:
    place = join("", *error.absolute_path)
    match error.validator:
        case "required":
            for name in error.validator_value:
                if name not in error.instance:
                    yield Fault(join(place, name), "is missing", _meaning(error, name))
        case "additionalProperties":
            known = error.schema.get("properties", {})
            for name in error.instance:
                if name not in known:
                    hint = nearest(name, known) or f"takes: {', '.join(known) or 'nothing'}"
                    yield Fault(join(place, shown(name)), "is not an argument of this tool", hint)
        case _:
            words = _WORDS[str(error.validator)](error)
            yield Fault(place, words, str(error.schema.get("description", "")))


def _meaning(error: ValidationError, name: str) -> str:
    return str(error.schema["properties"][name].get("description", ""))


def _wrong_type(error: ValidationError) -> str:
    wanted = error.validator_value
    names = [wanted] if isinstance(wanted, str) else wanted
    kinds = " or ".join(_KINDS[name] for name in names)
    return f"must be {kinds}, not {_OF_PYTHON[type(error.instance)]}"


_WORDS: Mapping[str, Callable[[ValidationError], str]] = {
    "type": _wrong_type,
    "enum": lambda error: f"is {shown(error.instance)!r}, not one of {', '.join(map(str, error.validator_value))}",
    "minimum": lambda error: f"is {shown(error.instance)}; {error.validator_value} is the least",
    "maximum": lambda error: f"is {shown(error.instance)}; {error.validator_value} is the most",
    "minLength": lambda _error: "must not be empty",
    "maxLength": lambda error: f"has {len(error.instance)} characters; {error.validator_value} is the most",
}
"""One entry for each word that `schemas` uses."""
