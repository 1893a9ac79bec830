"""Compiled filters: what passes, and what was compared when it did not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

from loops.event import Event, JsonValue
from loops.filters.operators import OPERATORS, SHOWN_LENGTH, cut, shown

Variables: TypeAlias = Mapping[str, JsonValue]
NO_VARIABLES: Variables = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Comparison:
    """One predicate held against one event. `error` says why it could not be evaluated, in which case it fails; `note`
    what has to be known of the value, such as where it comes from."""

    key: str
    operator: str
    expected: JsonValue
    actual: JsonValue
    passed: bool
    error: str = ""
    note: str = ""

    def words(self) -> str:
        """As in `action is "closed", wanted exactly "opened"`; values are cut to 200 characters."""
        wanted = OPERATORS[self.operator].wanted(self.expected)
        if self.error:
            return f"{self.key}: filter error, {self.error}; wanted {wanted}"
        found = "is not set" if self.actual is None else f"is {shown(self.actual)}"
        told = f"{self.key} {found}, wanted {wanted}"
        return f"{told} ({self.note})" if self.note else told

    def as_json(self) -> dict[str, JsonValue]:
        """For storage and display: long values are cut, and what is long and no text is shown as JSON text. `error`
        and `note` are there only where there is one."""
        stored: dict[str, JsonValue] = {
            "key": self.key,
            "operator": self.operator,
            "expected": _bounded(self.expected),
            "actual": _bounded(self.actual),
            "passed": self.passed,
        }
        for name, text in (("error", self.error), ("note", self.note)):
            if text:
                stored[name] = cut(text)
        return stored


class Test(Protocol):
    """Whether an event passes; `variables` are those of a run, where there is one."""

    def __call__(self, event: Event, variables: Variables = ..., /) -> bool: ...


class Read(Protocol):
    """What an event, or a run's variables, have under a key."""

    def __call__(self, event: Event, variables: Variables = ..., /) -> JsonValue: ...


class Condition(Protocol):
    """What a filter asks of an event.

    `exact` holds the wanted strings where the condition is an exact comparison of the event property `key` with
    strings only: an event whose property is another string, or missing, cannot pass. It is what an index may look up.
    """

    @property
    def key(self) -> str: ...

    @property
    def exact(self) -> frozenset[str] | None: ...

    @property
    def test(self) -> Test: ...

    def compared(self, event: Event, variables: Variables = ...) -> tuple[Comparison, ...]:
        """What was compared: all of it passed exactly when the test passes."""


# A property whose value is looked up or worked out -> the property that says how.
_NOTED_BY: Mapping[str, str] = MappingProxyType({"actor_access": "actor_access_reason"})


def note_on(key: str, event: Event) -> str:
    """What has to be known of the value of a property; an expression counts as every property that it names."""
    for name, told_by in _NOTED_BY.items():
        if name in key:
            note = event.properties.get(told_by)
            return note if isinstance(note, str) else ""
    return ""


def _no_trouble(_actual: JsonValue) -> str:
    return ""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Predicate:
    """One property filter, compiled. Filters that say the same may share one, so identity serves for equality.

    `trouble` says why a value could not be compared, "" where it could; `resolved` gives the wanted value as it is
    read at this moment, where it is a relative one.
    """

    key: str
    operator: str
    expected: JsonValue
    test: Test
    read: Read
    exact: frozenset[str] | None = None
    trouble: Callable[[JsonValue], str] = _no_trouble
    resolved: Callable[[], JsonValue] | None = None

    def compared(self, event: Event, variables: Variables = NO_VARIABLES) -> tuple[Comparison, ...]:
        """The one comparison that this is."""
        expected = self.expected if self.resolved is None else self.resolved()
        actual, passed = self.read(event, variables), self.test(event, variables)
        error = "" if passed else self.trouble(actual)
        note = note_on(self.key, event)
        return (Comparison(self.key, self.operator, expected, actual, passed, error, note),)


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """Branches of which one must hold; all conditions of a branch must."""

    branches: tuple[tuple[Condition, ...], ...]
    key: str = ""
    exact: frozenset[str] | None = None

    def test(self, event: Event, variables: Variables = NO_VARIABLES, /) -> bool:
        """Whether a branch holds."""
        return any(all_hold(branch, event, variables) for branch in self.branches)

    def compared(self, event: Event, variables: Variables = NO_VARIABLES) -> tuple[Comparison, ...]:
        """What was compared in the branch that holds; in every branch if none does."""
        held = next((branch for branch in self.branches if all_hold(branch, event, variables)), None)
        shown_branches = self.branches if held is None else (held,)
        return tuple(
            one for branch in shown_branches for condition in branch for one in condition.compared(event, variables)
        )


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of several wanted events together with its own property filters; name None is any event."""

    name: str | None
    predicates: tuple[Condition, ...]

    def hears(self, name: str) -> bool:
        return self.name is None or self.name == name

    def holds(self, event: Event, variables: Variables = NO_VARIABLES) -> bool:
        return self.hears(event.name) and all_hold(self.predicates, event, variables)


@dataclass(frozen=True, slots=True)
class Filter:
    """The event names AND every predicate AND, where wanted events have filters of their own, one alternative.

    `event_names` None is every name. `exact` is what must be true of string properties for the filter to pass, by
    property key; the values of `repository` are lower-cased, as it is compared without case.
    """

    event_names: frozenset[str] | None
    predicates: tuple[Condition, ...]
    exact: Mapping[str, frozenset[str]]
    alternatives: tuple[Alternative, ...] = ()

    def hears(self, name: str) -> bool:
        return self.event_names is None or name in self.event_names

    def hears_event(self, event: Event) -> bool:
        return self.hears(event.name)

    def fits_an_alternative(self, event: Event, variables: Variables = NO_VARIABLES) -> bool:
        if not self.alternatives:
            return True
        return any(alternative.holds(event, variables) for alternative in self.alternatives)

    def matches(self, event: Event, variables: Variables = NO_VARIABLES) -> bool:
        """Whether the event passes. `variables` are those of the run that asks; a trigger has none."""
        return (
            self.hears(event.name)
            and all_hold(self.predicates, event, variables)
            and self.fits_an_alternative(event, variables)
        )

    def explain(self, event: Event, variables: Variables = NO_VARIABLES) -> tuple[Comparison, ...]:
        """Everything that was compared; all passed exactly when the event matches, else the first failed is why."""
        compared = self._name_compared(event)
        for condition in self.predicates:
            compared += condition.compared(event, variables)
        return (*compared, *self._alternatives_compared(event, variables))

    def _name_compared(self, event: Event) -> list[Comparison]:
        if self.event_names is None:
            return []
        wanted: list[JsonValue] = [*sorted(self.event_names)]
        return [Comparison("event", "exact", wanted, event.name, self.hears(event.name))]

    def _alternatives_compared(self, event: Event, variables: Variables) -> list[Comparison]:
        """Those of the alternative that holds; if none does, those of every alternative for this event name."""
        heard = [alternative for alternative in self.alternatives if alternative.hears(event.name)]
        chosen = next(([alternative] for alternative in heard if alternative.holds(event, variables)), heard)
        return [
            comparison
            for alternative in chosen
            for condition in alternative.predicates
            for comparison in condition.compared(event, variables)
        ]


def all_hold(conditions: tuple[Condition, ...], event: Event, variables: Variables = NO_VARIABLES) -> bool:
    """Whether each of the conditions holds."""
    for condition in conditions:  # noqa: SIM110  # a generator costs twice the loop, and this runs per event
        if not condition.test(event, variables):
            return False
    return True


def _bounded(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, (list, dict)):
        text = shown(value)
        return text if len(text) > SHOWN_LENGTH else value
    return value
