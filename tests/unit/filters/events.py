"""Events and filters for the tests of filters."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from loops.event import Event, JsonValue
from loops.filters import Filter, compile_filter

RECEIVED = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
GITHUB = "$github_event_received"


def event(properties: Mapping[str, JsonValue] | None = None, *, name: str = GITHUB, source: str = "github") -> Event:
    return Event("0c7a", name, source, "ada", RECEIVED, {} if properties is None else properties)


def one(key: str, operator: str | None = None, value: Any = None, **more: Any) -> Filter:
    """The filter of a single property."""
    entry = {"key": key, "value": value, **more}
    return compile_filter({"properties": [entry if operator is None else {**entry, "operator": operator}]})


def holds(operator: str | None, wanted: Any, actual: Any, key: str = "p") -> bool:
    return one(key, operator, wanted).matches(event({key: actual}))
