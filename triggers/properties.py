"""An event's properties with one that is costly to make, and is made when it is asked for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from loops.event import Event, JsonValue


class LazyProperties(Mapping[str, JsonValue]):
    """Flat properties and, under `key`, what `load` gives: called once, at the first look at that key."""

    __slots__ = ("_flat", "_key", "_load")

    def __init__(self, flat: dict[str, JsonValue], key: str, load: Callable[[], JsonValue]) -> None:
        self._flat = flat
        self._key = key
        self._load: Callable[[], JsonValue] | None = load

    def get(self, key: str, default: JsonValue = None) -> JsonValue:  # type: ignore[override]  # one type is enough
        if key == self._key:
            return self[key]
        return self._flat.get(key, default)

    def __getitem__(self, key: str) -> JsonValue:
        if key == self._key and self._load is not None:
            self._flat[key] = self._load()
            self._load = None
        return self._flat[key]

    def __iter__(self) -> Iterator[str]:
        yield from (key for key in self._flat if key != self._key)
        yield self._key

    def __len__(self) -> int:
        return len(self._flat) + (self._load is not None)

    def __contains__(self, key: object) -> bool:
        return key == self._key or key in self._flat

    def amended(self, values: Mapping[str, JsonValue]) -> "LazyProperties":
        """The same with other values for some of the flat properties."""
        copy = LazyProperties({**self._flat, **values}, self._key, lambda: None)
        copy._load = self._load
        return copy

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._flat!r}, {self._key!r})"


def amended(event: Event, values: Mapping[str, JsonValue]) -> Event:
    """The event with other values for some of its flat properties."""
    properties = event.properties
    if isinstance(properties, LazyProperties):
        return replace(event, properties=properties.amended(values))
    return replace(event, properties={**properties, **values})
