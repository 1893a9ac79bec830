"""Workflow variables: what a step's result sets, within 5 KB in all.

The result of a task may be long. A variable that takes more than 1 KB of it holds a reference to the step's stored
result instead, which counts nothing toward the limit and is read whole wherever the variable is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loops.event import JsonValue

MOST_BYTES = 5120
LARGEST_COPY = 1024
_STEP, _PATH = "$step", "$path"
_PART = re.compile(r"[^.\[\]]+")


class VariablesTooLargeError(ValueError):
    """Setting these variables would take all of them over the limit; none of them is set."""


@dataclass(frozen=True, slots=True)
class OutputVariable:
    """One mapping of an action's result: the whole of it or what lies at `result_path`; `spread` makes an object one
    variable a property."""

    key: str
    result_path: str | None = None
    spread: bool = False


def read_path(value: JsonValue, path: str) -> JsonValue:
    """The value at `a.b[0].c`, or None where there is none. Lists are counted from 0."""
    for part in _PART.findall(path):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def assign(
    variables: Mapping[str, JsonValue],
    outputs: Sequence[OutputVariable],
    result: JsonValue,
    *,
    refer_to: str | None = None,
) -> Mapping[str, JsonValue]:
    """The variables after a step that came to `result`; `refer_to` is the step's id where long values are referred to.

    Raises VariablesTooLargeError when they would pass 5 KB.
    """
    if not outputs or result is None:
        return variables
    fresh: dict[str, JsonValue] = {}
    for output in outputs:
        for key, path, value in _values(output, result):
            fresh[key] = value if refer_to is None or size_of(value) <= LARGEST_COPY else _reference(refer_to, path)
    merged = {**variables, **fresh}
    size = size_of({key: value for key, value in merged.items() if not _is_reference(value)})
    if size > MOST_BYTES:
        names = ", ".join(sorted(fresh))
        raise VariablesTooLargeError(
            f"setting {names} would take the variables to {size} bytes, over the limit of {MOST_BYTES}"
        )
    return merged


def resolved(variables: Mapping[str, JsonValue], results: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The variables with references replaced by what they refer to in the steps' results."""
    return {key: _referred(value, results) for key, value in variables.items()}


def _values(output: OutputVariable, result: JsonValue) -> list[tuple[str, str, JsonValue]]:
    path = output.result_path or ""
    value = read_path(result, path) if path else result
    if not (output.spread and isinstance(value, dict)):
        return [(output.key, path, value)]
    return [(f"{output.key}_{name}", f"{path}.{name}" if path else name, item) for name, item in value.items()]


def _reference(step: str, path: str) -> JsonValue:
    return {_STEP: step, _PATH: path}


def _is_reference(value: JsonValue) -> bool:
    return isinstance(value, dict) and value.keys() == {_STEP, _PATH}


def _referred(value: JsonValue, results: Mapping[str, JsonValue]) -> JsonValue:
    if not (isinstance(value, dict) and _is_reference(value)):
        return value
    result, path = results.get(str(value[_STEP])), str(value[_PATH])
    return read_path(result, path) if path else result


def size_of(value: JsonValue) -> int:
    """The bytes that a value takes as JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
