"""JSON validated against a class of the schema: the value, or every fault and what is left without the faulty parts."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from loops.definition.findings import Findings, join
from loops.definition.schema.translate import faults_of, places_of

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
_MOST_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Validated(Generic[T]):
    """`value` is what the JSON says, None if it is faulty. `rest` is the same without its faulty parts, for checks
    that look further; None where nothing can be made of it."""

    value: T | None
    rest: T | None


class Validator(Generic[T]):
    """Validates JSON against a class or a union of classes. `spare` are keys that stand in for faulty ones in what is
    left."""

    def __init__(self, annotation: "TypeForm[T]", spare: Mapping[str, JsonValue] | None = None) -> None:
        self._spare = dict(spare or {})
        self._annotation = annotation
        self._adapter: TypeAdapter[T] = TypeAdapter(annotation)

    def validate(
        self,
        raw: JsonValue,
        path: str,
        findings: Findings,
        place: Callable[[str, Sequence[str | int]], str] | None = None,
    ) -> Validated[T]:
        """Report the faults of `raw`, which stands at `path`; `place` tells where in the document a part of it is."""
        try:
            value = self._adapter.validate_python(raw)
        except ValidationError as error:
            where = place or (lambda start, parts: join(start, *parts))
            for parts, message, hint in faults_of(error, self._annotation, raw):
                findings.refuse(where(path, parts), message, hint)
            return Validated(None, self._without_faults(raw, error))
        return Validated(value, value)

    def _without_faults(self, raw: JsonValue, error: ValidationError) -> T | None:
        rest = copy.deepcopy(raw)
        for _ in range(_MOST_ROUNDS):
            _cut_out(rest, places_of(error, self._annotation, rest))
            if isinstance(rest, dict):
                rest = {**self._spare, **rest}
            try:
                return self._adapter.validate_python(rest)
            except ValidationError as again:
                error = again
        return None


def _cut_out(raw: JsonValue, places: Iterable[Sequence[str | int]]) -> None:
    """Remove the keys in which the places lie. Of a list nothing is removed, since its other entries would change their
    places, but the list as a whole; and for a key that is missing the object that lacks it."""
    for way in {_innermost(raw, parts) for parts in places}:
        holder = raw
        for key in way[:-1]:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if way and isinstance(holder, dict):
            holder.pop(way[-1], None)


def _innermost(raw: JsonValue, parts: Sequence[str | int]) -> tuple[str, ...]:
    """The keys on the way to a place, as far as there are objects that have them."""
    way: list[str] = []
    for part in parts:
        if not isinstance(raw, dict) or not isinstance(part, str) or part not in raw:
            break
        way.append(part)
        raw = raw[part]
    return tuple(way)
