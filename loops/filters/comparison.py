"""Compiled filters: what passes, and what was compared when it did not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loops.event import Event, JsonValue
from loops.filters.operators import OPERATORS, SHOWN_LENGTH, cut, shown


@dataclass(frozen=True, slots=True)
class Comparison:
    """One predicate held against one event."""

    key: str
    operator: str
    expected: JsonValue
    actual: JsonValue
    passed: bool

    def words(self) -> str:
        """As in `action is "closed", wanted exactly "opened"`; values are cut to 200 characters."""
        found = "is not set" if self.actual is None else f"is {shown(self.actual)}"
        return f"{self.key} {found}, wanted {OPERATORS[self.operator].wanted(self.expected)}"

    def as_json(self) -> dict[str, JsonValue]:
        """For storage and display: long values are cut, and what is long and no text is shown as JSON text."""
        return {
            "key": self.key,
            "operator": self.operator,
            "expected": _bounded(self.expected),
            "actual": _bounded(self.actual),
            "passed": self.passed,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """One property filter, compiled. Filters that say the same may share one, so identity serves for equality.

    `exact` holds the wanted strings where the predicate is an exact comparison of an event property with strings
    only: an event whose property is another string, or missing, cannot pass. It is what an index may look up.
    """

    key: str
    operator: str
    expected: JsonValue
    test: Callable[[Event], bool]
    read: Callable[[Event], JsonValue]
    exact: frozenset[str] | None = None

    def explain(self, event: Event) -> Comparison:
        return Comparison(self.key, self.operator, self.expected, self.read(event), self.test(event))


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of several wanted events together with its own property filters; name None is any event."""

    name: str | None
    predicates: tuple[Predicate, ...]

    def hears(self, name: str) -> bool:
        return self.name is None or self.name == name

    def holds(self, event: Event) -> bool:
        return self.hears(event.name) and _all_hold(self.predicates, event)


@dataclass(frozen=True, slots=True)
class Filter:
    """The event names AND every predicate AND, where wanted events have filters of their own, one alternative.

    `event_names` None is every name. `exact` is what must be true of string properties for the filter to pass, by
    property key; the values of `repository` are lower-cased, as it is compared without case.
    """

    event_names: frozenset[str] | None
    predicates: tuple[Predicate, ...]
    exact: Mapping[str, frozenset[str]]
    alternatives: tuple[Alternative, ...] = ()

    def hears(self, name: str) -> bool:
        return self.event_names is None or name in self.event_names

    def hears_event(self, event: Event) -> bool:
        return self.hears(event.name)

    def fits_an_alternative(self, event: Event) -> bool:
        if not self.alternatives:
            return True
        return any(alternative.holds(event) for alternative in self.alternatives)

    def matches(self, event: Event) -> bool:
        return self.hears(event.name) and _all_hold(self.predicates, event) and self.fits_an_alternative(event)

    def explain(self, event: Event) -> tuple[Comparison, ...]:
        """Everything that was compared; all passed exactly when the event matches, else the first failed is why."""
        compared = [*self._name_compared(event), *(predicate.explain(event) for predicate in self.predicates)]
        return (*compared, *self._alternatives_compared(event))

    def _name_compared(self, event: Event) -> list[Comparison]:
        if self.event_names is None:
            return []
        wanted: list[JsonValue] = [*sorted(self.event_names)]
        return [Comparison("event", "exact", wanted, event.name, self.hears(event.name))]

    def _alternatives_compared(self, event: Event) -> list[Comparison]:
        """Those of the alternative that holds; if none does, those of every alternative for this event name."""
        heard = [alternative for alternative in self.alternatives if alternative.hears(event.name)]
        chosen = next(([alternative] for alternative in heard if alternative.holds(event)), heard)
        return [predicate.explain(event) for alternative in chosen for predicate in alternative.predicates]


def _all_hold(predicates: tuple[Predicate, ...], event: Event) -> bool:
    for predicate in predicates:  # noqa: SIM110  # a generator costs twice the loop, and this runs per event
        if not predicate.test(event):
            return False
    return True


def _bounded(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, (list, dict)):
        text = shown(value)
        return text if len(text) > SHOWN_LENGTH else value
    return value
