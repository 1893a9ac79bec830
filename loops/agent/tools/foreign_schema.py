"""Arguments held against the schema of a stranger. The library is loaded with this module, which workers alone need.

Of the schema only what can be held in a bounded time is: what is left out is the server's to hold.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from loops.agent.tools.tool import ToolError
from loops.definition.findings import join

_MOST_WORK = 60_000
"""Keywords that are applied for one call, each for a thousand characters of what it is applied to."""
_A_FAULT = 10
"""What a fault costs beside: it is made again for each branch that does not fit."""
_CHARACTERS = 1_000
_MOST_FAULTS = 10
_PLAIN = frozenset(
    {"type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "dependentRequired"}
    | {"minProperties", "maxProperties"}
)
_ONE = frozenset({"additionalProperties", "contains", "items", "propertyNames"})
_MANY = frozenset({"allOf", "anyOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_TURNED = frozenset({"not", "if", "then", "else", "oneOf"})
"""These refuse more where a schema in them holds less."""
_LEFT_OUT: Final = frozenset(
    {"pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems"}
    | {"$dynamicRef", "$recursiveRef"}
)


def is_schema(given: Mapping[str, Any]) -> bool:
    """Whether it is a JSON schema at all."""
    try:
        Draft202012Validator.check_schema(dict(given))
    except (SchemaError, RecursionError):
        return False
    return True


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raises ToolError naming what does not fit. The schema is a stranger's: nothing is fetched for it, its patterns
    are the server's to hold, and one that takes too long is given up. It takes its time: call it beside the loop."""
    try:
        work = _Work(_sizes(arguments))
        held = extend(Draft202012Validator, {name: work.held(name) for name in Draft202012Validator.VALIDATORS})
        validator = held(_bounded(schema), registry=Registry())
        faults = list(islice(validator.iter_errors(dict(arguments)), _MOST_FAULTS))
    except (_TooMuch, RecursionError, Unresolvable, ArithmeticError) as error:
        raise ToolError("BAD_SCHEMA", "the tool's schema cannot be held", "go on without this tool") from error
    if faults:
        told = "; ".join(sorted(_fault(one) for one in faults))
        expected = ", ".join(map(str, schema.get("properties") or ())) or "none"
        raise ToolError("BAD_ARGUMENTS", told, f"arguments of this tool: {expected[:500]}")


class _TooMuch(Exception):
    """A schema refers to itself again and again, or to what is none."""


def _bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what cannot be held. What it refers to is a schema that stands in it."""
    thinned = _Thinned()
    found: dict[str, Any] = thinned.schema(schema, "")
    if thinned.holds_less:
        thinned = _Thinned(turned=frozenset())
        found = thinned.schema(schema, "")
    if not thinned.references <= thinned.places:
        raise _TooMuch
    return found


@dataclass(slots=True)
class _Thinned:
    """Walks the places of a schema where schemas stand, by their pointers."""

    turned: frozenset[str] = _TURNED
    holds_less: bool = False
    places: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)

    def schema(self, given: Any, place: str) -> Any:  # noqa: ANN401
        self.places.add(place)
        if not isinstance(given, Mapping):
            return given
        self.holds_less |= not _LEFT_OUT.isdisjoint(given)
        kept = {key: self._value(key, value, f"{place}/{key}") for key, value in given.items() if self._keeps(key)}
        if "patternProperties" in given:
            kept.pop("additionalProperties", None)
        if "$ref" in given:
            kept["$ref"] = given["$ref"]
            self.references.add(_pointer(given["$ref"]))
        return kept

    def _keeps(self, key: str) -> bool:
        return key in _PLAIN or key in _ONE or key in _MANY or key in _NAMED or key in self.turned

    def _value(self, key: str, value: Any, place: str) -> Any:  # noqa: ANN401
        if key in _PLAIN:
            return value
        if key in _NAMED and isinstance(value, Mapping):
            return {name: self.schema(one, f"{place}/{_escaped(name)}") for name, one in value.items()}
        if isinstance(value, list):
            return [self.schema(one, f"{place}/{number}") for number, one in enumerate(value)]
        return self.schema(value, place)


def _pointer(reference: object) -> str:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise _TooMuch
    return unquote(reference[1:])


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


@dataclass(slots=True)
class _Work:
    """What is done for one call; `sizes` are the characters of its lists and objects by their identity."""

    sizes: Mapping[int, int]
    left: int = _MOST_WORK

    def held(self, name: str) -> Callable[..., Iterator[ValidationError]]:
        """The keyword, counted each time that it is applied: what it says of a value holds the whole value."""
        keyword = Draft202012Validator.VALIDATORS[name]

        def applied(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
            size = len(instance) if isinstance(instance, str) else self.sizes.get(id(instance), 0)
            self._spend(1 + size // _CHARACTERS)
            for fault in keyword(validator, value, instance, schema) or ():
                self._spend(_A_FAULT)
                yield fault

        return applied

    def _spend(self, work: int) -> None:
        self.left -= work
        if self.left < 0:
            raise _TooMuch


def _sizes(arguments: Mapping[str, Any]) -> dict[int, int]:
    found: dict[int, int] = {}

    def size(value: object) -> int:
        if isinstance(value, Mapping):
            found[id(value)] = sum(len(key) + size(one) for key, one in value.items())
            return found[id(value)]
        if isinstance(value, list):
            found[id(value)] = sum(map(size, value))
            return found[id(value)]
        return len(value) if isinstance(value, str) else 1

    size(arguments)
    return found


def _fault(error: ValidationError) -> str:
    place = join("", *error.absolute_path) or "arguments"
    return f"{place}: {error.message[:200]}"
