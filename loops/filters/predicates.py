"""The property types of filters: where a key is read. One more type is one more entry in PROPERTY_TYPES."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from loops.event import Event, JsonValue
from loops.expressions.coercion import to_text
from loops.filters.comparison import Predicate
from loops.filters.operators import OPERATORS, all_strings, each

_METADATA: Mapping[str, Callable[[Event], JsonValue]] = MappingProxyType(
    {
        "event": lambda event: event.name,
        "distinct_id": lambda event: event.distinct_id,
        "timestamp": lambda event: to_text(event.timestamp),
        "uuid": lambda event: event.uuid,
    }
)

# Two spellings of one repository name are one repository, on GitHub and so here.
_CASELESS_KEY = "repository"


@dataclass(frozen=True, slots=True)
class PropertyType:
    """`keys` are all that there are, None where any key may be asked for; `predicate` takes the value as JSON text."""

    keys: tuple[str, ...] | None
    predicate: Callable[[str, str, str], Predicate]


# Workflows ask the same of their events again and again (`actor_access` is "write"): one predicate serves them all,
# which saves memory, and an index runs it once for all of them.
@lru_cache(maxsize=4096)
def _of_event(key: str, operator: str, value_json: str) -> Predicate:
    """Reads a property of the event; a dotted key is the name of one flat property, as PostHog has it."""
    value: JsonValue = json.loads(value_json)
    caseless = key == _CASELESS_KEY
    wanted: JsonValue = [_lowered(one) for one in each(value)] if caseless else value
    holds = OPERATORS[operator].build(wanted)

    def read(event: Event) -> JsonValue:
        return event.properties.get(key)

    def test(event: Event) -> bool:
        return holds(event.properties.get(key))

    def test_without_case(event: Event) -> bool:
        return holds(_lowered(event.properties.get(key)))

    exact = all_strings(wanted) if operator == "exact" else None
    return Predicate(key, operator, value, test_without_case if caseless else test, read, exact)


@lru_cache(maxsize=4096)
def _of_metadata(key: str, operator: str, value_json: str) -> Predicate:
    """Reads a field of the event itself."""
    value: JsonValue = json.loads(value_json)
    holds, read = OPERATORS[operator].build(value), _METADATA[key]
    return Predicate(key, operator, value, lambda event: holds(read(event)), read)


def _lowered(value: JsonValue) -> JsonValue:
    return value.lower() if isinstance(value, str) else value


PROPERTY_TYPES: Mapping[str, PropertyType] = MappingProxyType(
    {
        "event": PropertyType(None, _of_event),
        "event_metadata": PropertyType(tuple(_METADATA), _of_metadata),
    }
)
