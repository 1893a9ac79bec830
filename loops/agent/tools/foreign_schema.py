"""Arguments held against the schema of a stranger. The library is loaded with this module, which workers alone need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from loops.agent.tools.tool import ToolError
from loops.definition.findings import join

_MOST_REFERENCES = 500
_MOST_FAULTS = 10


def is_schema(given: Mapping[str, Any]) -> bool:
    """Whether it is a JSON schema at all."""
    try:
        Draft202012Validator.check_schema(dict(given))
    except (SchemaError, RecursionError):
        return False
    return True


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raises ToolError naming what does not fit. The schema is a stranger's: nothing is fetched for it, its patterns
    are the server's to hold, and what it refers to in circles is given up."""
    budget = _References(_MOST_REFERENCES)
    held = extend(Draft202012Validator, {"pattern": _not_held, "patternProperties": _not_held, "$ref": budget.held})
    validator = held(dict(schema), registry=Registry())
    try:
        faults = list(islice(validator.iter_errors(dict(arguments)), _MOST_FAULTS))
    except (_TooMany, RecursionError, Unresolvable) as error:
        raise ToolError("BAD_SCHEMA", "the tool's schema cannot be held", "go on without this tool") from error
    if faults:
        told = "; ".join(sorted(_fault(one) for one in faults))
        expected = ", ".join(map(str, schema.get("properties") or ())) or "none"
        raise ToolError("BAD_ARGUMENTS", told, f"arguments of this tool: {expected[:500]}")


class _TooMany(Exception):
    """A schema refers to itself again and again."""


@dataclass(slots=True)
class _References:
    left: int

    def held(self, validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
        self.left -= 1
        if self.left < 0:
            raise _TooMany
        yield from Draft202012Validator.VALIDATORS["$ref"](validator, reference, instance, schema)


def _not_held(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
    return iter(())


def _fault(error: ValidationError) -> str:
    place = join("", *error.absolute_path) or "arguments"
    return f"{place}: {error.message[:200]}"
