"""What the filters of a trigger ask of an event, read from the document with the place of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loops.definition.findings import join
from loops.definition.schema.triggers import Trigger
from loops.event import JsonValue
from loops.filters.operators import OPERATORS, each

_ANY_OF = frozenset({"exact", "in"})
_NONE_OF = frozenset({"is_not", "not_in"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One filter. `must` where an event that does not satisfy it starts nothing; where it is one of several
    alternatives it is false. `kind` is its type, and of an expression `key` is the source."""

    path: str
    key: str
    kind: str
    operator: str
    values: tuple[JsonValue, ...]
    must: bool

    @property
    def any_of(self) -> bool:
        """Whether the property has to be one of the values."""
        return self.operator in _ANY_OF

    @property
    def none_of(self) -> bool:
        """Whether the property may be none of the values."""
        return self.operator in _NONE_OF

    @property
    def needs_value(self) -> bool:
        """Whether only an event that has the property at all can satisfy it."""
        operator = OPERATORS.get(self.operator)
        return operator is not None and not operator.negates and self.operator != "is_not_set"


@dataclass(frozen=True, slots=True)
class Listening:
    """One of the events that a trigger names, with all that is asked of it: by the trigger, and by its own entry.

    `name` is None for every event; `path` is where the entry stands, `filters` where the trigger's properties do.
    """

    name: str | None
    path: str
    filters: str
    asked: tuple[Asked, ...]

    def musts(self, key: str) -> list[Asked]:
        """What must hold of an event property."""
        return [one for one in self.asked if one.must and one.kind == "event" and one.key == key]

    def narrows(self, *keys: str) -> bool:
        """Whether one of the properties has to be one of some values."""
        return any(asked.any_of for key in keys for asked in self.musts(key))

    def speaks_of(self, *keys: str) -> bool:
        """Whether something that must hold asks for one of the properties; of an expression its words tell."""
        for one in self.asked:
            if not one.must:
                continue
            if one.kind == "event" and one.key in keys:
                return True
            if one.kind == "hogql" and any(key in one.key for key in keys):
                return True
        return False


def listening(config: Trigger, path: str) -> tuple[Listening, ...]:
    """What a trigger listens to, its config standing at `path`; nothing where its events are made for it alone. What
    other checks refuse is passed over."""
    filters = config.effective_filters()
    if filters is None:
        return ()
    place = join(path, "filters")
    shared = tuple(_asked(filters.get("properties"), join(place, "properties"), must=True))
    events = filters.get("events")
    found = []
    for index, entry in enumerate(events if isinstance(events, list) else ()):
        if isinstance(entry, Mapping):
            inner = join(place, "events", index)
            own = tuple(_asked(entry.get("properties"), join(inner, "properties"), must=True))
            name = entry.get("id")
            known = name if isinstance(name, str) else None
            found.append(Listening(known, inner, join(place, "properties"), (*shared, *own)))
    if found or filters.get("actions"):
        return tuple(found)
    return (Listening(None, place, join(place, "properties"), shared),)


def _asked(entries: JsonValue, path: str, *, must: bool) -> Iterator[Asked]:
    """Of a list, whose filters must all hold, or of one group."""
    if isinstance(entries, Mapping):
        yield from _entry(entries, path, must=must)
    elif isinstance(entries, list):
        for index, entry in enumerate(entries):
            if isinstance(entry, Mapping):
                yield from _entry(entry, join(path, index), must=must)


def _entry(entry: Mapping[str, JsonValue], path: str, *, must: bool) -> Iterator[Asked]:
    values = entry.get("values")
    if isinstance(values, list):
        several = entry.get("type") == "OR" and len(values) > 1
        yield from _asked(values, join(path, "values"), must=must and not several)
        return
    key, kind, operator = entry.get("key"), entry.get("type", "event"), entry.get("operator", "exact")
    if isinstance(key, str) and isinstance(kind, str) and isinstance(operator, str):
        yield Asked(path, key, kind, operator, tuple(each(entry.get("value"))), must)
