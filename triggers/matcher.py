"""Which loops want this event: a trie over the exact keys of their filters, so that cost follows the few that fit.

Each level of the trie is one field of the event, from the most telling to the least. A listener that wants certain
values of a field stands below each of them, one that does not care below None. What an exact key cannot say (is_set,
icontains, ...) is left to compiled tests at the leaf, once for all listeners that test the same. Adding or removing a
listener touches its own paths only.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

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
# Plain dicts, nested once a field, since they are read on every event: field value (None: any) -> next field.
_Node: TypeAlias = dict[str | None, Any]
# What stands at the end of a path: what its listeners test -> those listeners.
_Leaf: TypeAlias = "dict[_Path, _Group]"


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


class _Group:
    __slots__ = ("listeners", "tests")

    def __init__(self, tests: tuple[_Test, ...]) -> None:
        self.tests = tests
        self.listeners: dict[str, Listener] = {}


class Index:
    def __init__(self) -> None:
        self._roots: dict[str, dict[TriggerKind, _Node]] = {}

    def match(self, project_id, event):
        root = self._roots.get((project_id, "event" if event.source == "posthog" else "internal-event"))
        if root is None:
            return Matches(event)
        get = event.properties.get
        repository = get("repository")
        if type(repository) is str:
            repository = repository.lower()
        nodes = [root]
        for value in (event.name, repository, get("event_type"), get("channel")):
            below = []
            for node in nodes:
                if value is not None:
                    child = node.get(value)
                    if child is not None: below.append(child)
                child = node.get(None)
                if child is not None: below.append(child)
            if not below:
                return Matches(event)
            nodes = below
        action = get("action")
        passed=[]; missed=[]
        for node in nodes:
            for key in ((action, None) if action is not None else (None,)):
                leaf = node.get(key)
                if leaf is not None:
                    for group in leaf.values():
                        for test in group.tests:
                            if not test(event):
                                missed.extend(group.listeners.values())
                                break
                        else:
                            passed.extend(group.listeners.values())
            if len(node) > 1 and len(missed) < NEAR_MISSES:
                for wanted, leaf in node.items():
                    if wanted is not None and wanted != action:
                        for group in leaf.values():
                            missed.extend(group.listeners.values())
                        if len(missed) >= NEAR_MISSES: break
        return Matches(event, tuple(passed), tuple(missed[:NEAR_MISSES]))

    def add(self, listener):
        paths, tests, sig = _placed(listener.filter)
        for path in paths:
            node = self._roots.setdefault((listener.project_id, listener.kind), {})
            for value in path:
                node = node.setdefault(value, {})
            g = node.get(sig)
            if g is None: g = node[sig] = _Group(tests)
            g.listeners[listener.key]=listener

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
    sig = tuple((predicate.key, predicate.operator, json.dumps(predicate.expected)) for predicate in wanted.predicates if not _is_settled(predicate, settled))
    if names is not None and levels[0] is None:
        tests.insert(0, lambda event: wanted.hears(event.name))
    if wanted.alternatives:
        tests.append(wanted.fits_an_alternative)
    return tuple(product(*((None,) if values is None else sorted(values) for values in levels))), tuple(tests), sig


def _is_settled(predicate: Predicate, settled: Mapping[str, frozenset[str] | None]) -> bool:
    """Whether reaching a leaf says already that the predicate holds."""
    values = settled.get(predicate.key)
    return predicate.exact is not None and values is not None and values <= predicate.exact
