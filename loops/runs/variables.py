"""Workflow variables: what a step's result sets, within 5 KB in all."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loops.event import JsonValue

MOST_BYTES = 5120
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
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def assign(
    variables: Mapping[str, JsonValue], outputs: Sequence[OutputVariable], result: JsonValue
) -> Mapping[str, JsonValue]:
    """The variables after a step that came to `result`. Raises VariablesTooLargeError when they would pass 5 KB."""
    if not outputs or result is None:
        return variables
    fresh: dict[str, JsonValue] = {}
    for output in outputs:
        value = read_path(result, output.result_path) if output.result_path else result
        if output.spread and isinstance(value, dict):
            fresh.update({f"{output.key}_{name}": item for name, item in value.items()})
        else:
            fresh[output.key] = value
    merged = {**variables, **fresh}
    size = len(json.dumps(merged, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    if size > MOST_BYTES:
        names = ", ".join(sorted(fresh))
        raise VariablesTooLargeError(
            f"setting {names} would take the variables to {size} bytes, over the limit of {MOST_BYTES}"
        )
    return merged
