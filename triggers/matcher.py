"""Which loops want this event: a trie over the exact keys of their filters, so that cost follows the few that fit.

Each level of the trie is one field of the event, from the most telling to the least. A listener that wants certain
values of a field stands below each of them, one that does not care below `rest`. What an exact key cannot say
(is_set, icontains, ...) is left to compiled tests at the leaf. Adding or removing a listener touches its own paths
only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from loops.event import Event, JsonValue
from loops.filters import Comparison, Filter, Predicate
from triggers.verdict import Verdict

TriggerKind: TypeAlias = Literal["internal-event", "event"]

NEAR_MISSES = 20

# actor_access is no field: it may have to be looked up, and is asked for last.
_PROPERTIES = ("repository", "event_type", "channel", "action")
# A listener whose lists multiply to more paths than this leaves its later fields to the leaf.
_PATHS = 1000

_Test: TypeAlias = Callable[[Event], bool]
_Path: TypeAlias = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Listener:
    """One enabled workflow's trigger. `key` is the workflow's id, `since` the epoch of definitions it counts from."""

    key: str
    filter: Filter
    since: int
    version: int
    project_id: str
    kind: TriggerKind


@dataclass(frozen=True, slots=True)
class Matches:
    """Who wants the event, and who nearly does: stopped by the action or by a test at the leaf, at most 20."""

    event: Event
    passed: tuple[Listener, ...] = ()
    missed: tuple[Listener, ...] = ()

    @property
    def near(self) -> tuple[tuple[Listener, tuple[Comparison, ...]], ...]:
        """The near misses with what was compared, worked out when asked for."""
        return tuple((listener, listener.filter.explain(self.event)) for listener in self.missed)


class _Entry:
    __slots__ = ("listener", "tests")

    def __init__(self, listener: Listener, tests: tuple[_Test, ...]) -> None:
        self.listener = listener
        self.tests = tests

    def holds(self, event: Event) -> bool:
        for test in self.tests:  # noqa: SIM110  # a generator costs twice the loop, and this runs per event
            if not test(event):
                return False
        return True


class _Node:
    __slots__ = ("entries", "rest", "values")

    def __init__(self) -> None:
        self.values: dict[str, _Node] = {}
        self.rest: _Node | None = None
        self.entries: dict[str, _Entry] = {}

    def grow(self, value: str | None) -> "_Node":
        if value is not None:
            return self.values.setdefault(value, _Node())
        if self.rest is None:
            self.rest = _Node()
        return self.rest

    def cut(self, value: str | None) -> None:
        if value is None:
            self.rest = None
        else:
            del self.values[value]

    def is_empty(self) -> bool:
        return not self.values and self.rest is None and not self.entries


class Index:
    """The listeners of all projects, ready to be asked about one event at a time."""

    def __init__(self) -> None:
        self._roots: dict[tuple[str, TriggerKind], _Node] = {}
        self._listeners: dict[str, tuple[Listener, tuple[_Path, ...]]] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def __contains__(self, key: str) -> bool:
        return key in self._listeners

    def add(self, listener: Listener) -> None:
        """Add a listener, in place of the one with its key if there is one."""
        self.remove(listener.key)
        paths, tests = _placed(listener.filter)
        entry = _Entry(listener, tests)
        for path in paths:
            node = self._roots.setdefault((listener.project_id, listener.kind), _Node())
            for value in path:
                node = node.grow(value)
            node.entries[listener.key] = entry
        self._listeners[listener.key] = (listener, paths)

    def remove(self, key: str) -> None:
        """Forget a listener; an unknown key is no error."""
        known = self._listeners.pop(key, None)
        if known is None:
            return
        listener, paths = known
        place = (listener.project_id, listener.kind)
        for path in paths:
            _prune(self._roots[place], path, key)
        if self._roots[place].is_empty():
            del self._roots[place]

    def match(self, project_id: str, event: Event) -> Matches:
        """Everyone in the project who wants the event, in no particular order."""
        root = self._roots.get((project_id, kind_of(event)))
        if root is None:
            return Matches(event)
        nodes = [root]
        fields = _fields(event)
        for value in fields[:-1]:
            nodes = _level(nodes, value)
            if not nodes:
                return Matches(event)
        return _decided(nodes, fields, event)

    def broad(self) -> int:
        """How many listeners no exact key narrows: each of them is tested against every event of its name."""
        return sum(1 for listener, _ in self._listeners.values() if not listener.filter.exact.keys() & _PROPERTIES)


def kind_of(event: Event) -> TriggerKind:
    """Which type of trigger may listen: `event` for what PostHog captured, `internal-event` for all else."""
    return "event" if event.source == "posthog" else "internal-event"


def explain(listener: Listener, project_id: str, event: Event) -> Verdict:
    """Why a loop starts or does not start on an event of a project, also where the trie would never have led to it."""

    def verdict(stage: str, reason: str, compared: tuple[Comparison, ...] = ()) -> Verdict:
        return Verdict(listener.key, listener.version, stage, stage == "start", reason, compared)

    if project_id != listener.project_id:
        return verdict("project", "the event arrived in another project")
    kind = kind_of(event)
    if kind != listener.kind:
        return verdict("trigger", f"the trigger is of type {listener.kind}, the event wants {kind}")
    compared = listener.filter.explain(event)
    failed = next((comparison for comparison in compared if not comparison.passed), None)
    if not listener.filter.hears(event.name):
        return verdict("trigger", compared[0].words(), compared[:1])
    if failed is not None:
        return verdict("filters", failed.words(), compared)
    return verdict("start", "every filter passed", compared)


def _fields(event: Event) -> tuple[JsonValue, ...]:
    get = event.properties.get
    repository = get("repository")
    if isinstance(repository, str):
        repository = repository.lower()
    return (event.name, repository, get("event_type"), get("channel"), get("action"))


def _level(nodes: list[_Node], value: JsonValue) -> list[_Node]:
    """The nodes one field further down. A value that is no string may equal one by coercion, so it follows all."""
    below: list[_Node] = []
    for node in nodes:
        if isinstance(value, str):
            child = node.values.get(value)
            if child is not None:
                below.append(child)
        elif value is not None:
            below.extend(node.values.values())
        if node.rest is not None:
            below.append(node.rest)
    return below


def _decided(nodes: list[_Node], fields: tuple[JsonValue, ...], event: Event) -> Matches:
    coerced = any(value is not None and not isinstance(value, str) for value in fields)
    passed: dict[str, Listener] = {}
    missed: dict[str, Listener] = {}
    for leaf in _level(nodes, fields[-1]):
        for key, entry in leaf.entries.items():
            if entry.listener.filter.matches(event) if coerced else entry.holds(event):
                passed[key] = entry.listener
            elif len(missed) < NEAR_MISSES:
                missed[key] = entry.listener
    if len(missed) < NEAR_MISSES:
        _add_other_actions(nodes, fields[-1], passed, missed)
    return Matches(event, tuple(passed.values()), tuple(missed.values()))


def _add_other_actions(
    nodes: list[_Node], action: JsonValue, passed: dict[str, Listener], missed: dict[str, Listener]
) -> None:
    for node in nodes:
        for wanted, leaf in node.values.items():
            if wanted == action:
                continue
            for key, entry in leaf.entries.items():
                if key not in passed:
                    missed[key] = entry.listener
                if len(missed) >= NEAR_MISSES:
                    return


def _placed(wanted: Filter) -> tuple[tuple[_Path, ...], tuple[_Test, ...]]:
    """The paths below which a filter stands, and what is left to test at their ends."""
    names = wanted.event_names
    levels: list[frozenset[str] | None] = [names, *(wanted.exact.get(key) for key in _PROPERTIES)]
    paths = 1
    for number, values in enumerate(levels):
        if values is not None and paths * len(values) <= _PATHS:
            paths *= len(values)
        else:
            levels[number] = None
    settled = dict(zip(_PROPERTIES, levels[1:], strict=True))
    tests = [predicate.test for predicate in wanted.predicates if not _is_settled(predicate, settled)]
    if names is not None and levels[0] is None:
        tests.insert(0, lambda event: wanted.hears(event.name))
    if wanted.alternatives:
        tests.append(wanted.fits_an_alternative)
    return tuple(product(*((None,) if values is None else sorted(values) for values in levels))), tuple(tests)


def _is_settled(predicate: Predicate, settled: Mapping[str, frozenset[str] | None]) -> bool:
    """Whether reaching a leaf says already that the predicate holds."""
    values = settled.get(predicate.key)
    return predicate.exact is not None and values is not None and values <= predicate.exact


def _prune(root: _Node, path: _Path, key: str) -> None:
    """Take the entry at the end of the path away, and every node that is empty then."""
    trail = [root]
    for value in path:
        trail.append(trail[-1].grow(value))
    del trail[-1].entries[key]
    for value, parent, node in zip(reversed(path), reversed(trail[:-1]), reversed(trail[1:]), strict=True):
        if not node.is_empty():
            return
        parent.cut(value)
