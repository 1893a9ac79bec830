"""Which loops want this event: a trie over the exact keys of their filters, so that cost follows the few that fit.

Each level of the trie is one field of the event, from the most telling to the least. A listener that wants certain
values of a field stands below each of them, one that does not care stands below None. What an exact key cannot say
(is_set, icontains, ...) is left to compiled tests at the leaf, run once for all listeners that test the same. Adding
or removing a listener touches its own paths only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

from loops.event import Event, JsonValue
from loops.filters import Comparison, Condition, Filter
from triggers.masking import Mask
from triggers.source import Topic
from triggers.verdict import Verdict

TriggerKind: TypeAlias = Literal["internal-event", "event", "webhook"]

NEAR_MISSES = 20
_KINDS: Mapping[str, TriggerKind] = {"posthog": "event", "webhook": "webhook"}

# The levels below the event's name. actor_access is none: it may have to be looked up, and is asked for last.
_PROPERTIES = ("repository", "event_type", "channel", "action")
# Of a topic: as many fields as it shares with the levels. It has no action.
_LEVELS = len(_PROPERTIES)
# A listener whose lists multiply to more paths than this leaves its later fields to the leaf.
_PATHS = 1000

_Test: TypeAlias = Callable[[Event], bool]
_Path: TypeAlias = tuple[str | None, ...]
# Nested plain dicts, as they are read on every event: a field's value (None: any) -> the next field, and at the end
# of a path: what is tested there -> the listeners that test it.
_Node: TypeAlias = dict[Any, Any]
_NO_LEAF: _Node = {}
_COMPARED_AS_IS = frozenset({str, type(None)})


@dataclass(frozen=True, slots=True)
class Listener:
    """One enabled workflow's trigger. `key` is the workflow's id, `since` the epoch of definitions it counts from;
    with `allows_unverified` events of unknown senders start it whatever it does. `asks_access` where its filter may
    turn on `actor_access`."""

    key: str
    filter: Filter
    since: int
    version: int
    project_id: str
    kind: TriggerKind
    allows_unverified: bool = False
    mask: Mask | None = None
    asks_access: bool = False


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


class Index:
    """The listeners of all projects, ready to be asked about one event at a time. For one thread."""

    def __init__(self) -> None:
        self._roots: dict[tuple[str, TriggerKind], _Node] = {}
        self._listeners: dict[str, Listener] = {}
        self._asking: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def __contains__(self, key: str) -> bool:
        return key in self._listeners

    def listeners(self) -> list[Listener]:
        """Every listener, in no particular order."""
        return list(self._listeners.values())

    def add(self, listener: Listener) -> None:
        """Add a listener, in place of the one with its key if there is one."""
        self.remove(listener.key)
        self._listeners[listener.key] = listener
        if listener.asks_access:
            self._asking[listener.project_id] = self._asking.get(listener.project_id, 0) + 1
        paths, tests = _placed(listener.filter)
        root = self._roots.setdefault((listener.project_id, listener.kind), {})
        for path in paths:
            node = root
            for value in path:
                node = node.setdefault(value, {})
            node.setdefault(tests, []).append(listener)

    def remove(self, key: str) -> None:
        """Forget a listener; an unknown key is no error."""
        listener = self._listeners.pop(key, None)
        if listener is None:
            return
        if listener.asks_access:
            self._asking[listener.project_id] -= 1
        place = (listener.project_id, listener.kind)
        paths, tests = _placed(listener.filter)
        for path in paths:
            _prune(self._roots[place], path, tests, key)
        if not self._roots[place]:
            del self._roots[place]

    def reaches(self, project_id: str, source: str, topic: Topic) -> bool:
        """Whether `match` could name anyone, as passed or as missed, for an event of this topic.

        Reads single entries only, so it may be asked while another thread adds and removes.
        """
        root = self._roots.get((project_id, _kind_from(source)))
        nodes = [root] if root is not None else []
        for value in topic[:_LEVELS]:
            nodes = [found for node in nodes for key in {value, None} if (found := node.get(key)) is not None]
        return bool(nodes)

    def match(self, project_id: str, event: Event) -> Matches:
        """Everyone in the project who wants the event, in no particular order."""
        root = self._roots.get((project_id, kind_of(event)))
        if root is None:
            return Matches(event)
        fields = _fields(event)
        if not _COMPARED_AS_IS.issuperset(map(type, fields)):
            return _matched_by_coercion(root, fields, event)
        nodes = [root]
        for value in fields[:-1]:
            above, nodes = nodes, []
            for node in above:
                if value in node:
                    nodes.append(node[value])
                if None in node and value is not None:
                    nodes.append(node[None])
            if not nodes:
                return Matches(event)
        return _decided(nodes, fields[-1], event)

    def asks_access(self, project_id: str) -> bool:
        """Whether the filter of any listener in the project may turn on `actor_access`."""
        return bool(self._asking) and self._asking.get(project_id, 0) > 0

    def broad(self) -> int:
        """How many listeners no exact key narrows: each of them is tested against every event of its name."""
        return sum(not listener.filter.exact.keys() & _PROPERTIES for listener in self._listeners.values())


def kind_of(event: Event) -> TriggerKind:
    """Which type of trigger may listen: `event` for what PostHog captured, `webhook` for a request to a workflow's own
    address, `internal-event` for all else."""
    return _kind_from(event.source)


def _kind_from(source: str) -> TriggerKind:
    return _KINDS.get(source, "internal-event")


def explain(listener: Listener, project_id: str, event: Event) -> Verdict:
    """Why a loop starts or does not start on an event, also where the trie would never have led to the loop."""

    def verdict(stage: str, reason: str, compared: tuple[Comparison, ...] = ()) -> Verdict:
        return Verdict(listener.key, listener.version, stage, stage == "start", reason, compared)

    if project_id != listener.project_id:
        return verdict("project", "the event arrived in another project")
    if kind_of(event) != listener.kind:
        reason = f"an event from {event.source} starts triggers of type {kind_of(event)}, this one is {listener.kind}"
        return verdict("trigger", reason)
    compared = listener.filter.explain(event)
    if not listener.filter.hears(event.name):
        return verdict("trigger", compared[0].words(), compared[:1])
    failed = next((comparison for comparison in compared if not comparison.passed), None)
    if failed is not None:
        return verdict("filters", failed.words(), compared)
    unknown = "; whether its mask would have let it pass is not worked out again" if listener.mask else ""
    return verdict("start", f"every filter passed{unknown}", compared)


def _fields(event: Event) -> tuple[JsonValue, ...]:
    get = event.properties.get
    repository = get("repository")
    if isinstance(repository, str):
        repository = repository.lower()
    return (event.name, repository, get("event_type"), get("channel"), get("action"))


def _decided(nodes: list[_Node], action: JsonValue, event: Event) -> Matches:
    """The last field, and what is tested below it."""
    passed: list[Listener] = []
    missed: list[Listener] = []
    for node in nodes:
        for value in (None,) if action is None else (action, None):
            for tests, listeners in node.get(value, _NO_LEAF).items():
                for test in tests:
                    if not test(event):
                        if len(missed) < NEAR_MISSES:
                            missed += listeners
                        break
                else:
                    passed += listeners
    if len(missed) < NEAR_MISSES:
        _add_other_actions(nodes, action, missed)
    return Matches(event, tuple(passed), tuple(missed[:NEAR_MISSES]))


def _matched_by_coercion(root: _Node, fields: tuple[JsonValue, ...], event: Event) -> Matches:
    """For an event with a field that is no string: it may equal any string, so all paths are followed there.

    The whole filter decides then, as not everything on the path was compared.
    """
    nodes = [root]
    for value in fields:
        ways = (None, value) if isinstance(value, str) else (None,)
        as_is = value is None or isinstance(value, str)
        nodes = [node[way] for node in nodes for way in (ways if as_is else node) if way in node]
    reached = {one.key: one for leaf in nodes for listeners in leaf.values() for one in listeners}
    passed: list[Listener] = []
    missed: list[Listener] = []
    for listener in reached.values():
        (passed if listener.filter.matches(event) else missed).append(listener)
    return Matches(event, tuple(passed), tuple(missed[:NEAR_MISSES]))


def _add_other_actions(nodes: list[_Node], action: JsonValue, missed: list[Listener]) -> None:
    """Those whom only the action keeps from a leaf, until the near misses are complete."""
    for listener in _wanting_other_actions(nodes, action):
        # Whoever wants several actions stands below each of them.
        if listener not in missed:
            missed.append(listener)
            if len(missed) >= NEAR_MISSES:
                return


def _wanting_other_actions(nodes: list[_Node], action: JsonValue) -> Iterator[Listener]:
    for node in nodes:
        for wanted, leaf in node.items():
            if wanted is None or wanted == action:
                continue
            for listeners in leaf.values():
                yield from (one for one in listeners if action not in one.filter.exact["action"])


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
    tests: list[_Test] = [one.test for one in wanted.predicates if not _is_settled(one, settled)]
    if levels[0] != names:
        tests.insert(0, wanted.hears_event)
    if wanted.alternatives:
        tests.append(wanted.fits_an_alternative)
    return tuple(product(*((None,) if values is None else sorted(values) for values in levels))), tuple(tests)


def _is_settled(condition: Condition, settled: Mapping[str, frozenset[str] | None]) -> bool:
    """Whether reaching a leaf says already that the condition holds."""
    values = settled.get(condition.key)
    return condition.exact is not None and values is not None and values <= condition.exact


def _prune(root: _Node, path: _Path, tests: tuple[_Test, ...], key: str) -> None:
    """Take a listener away from the end of a path, and every node that is empty then."""
    trail = [root]
    for value in path:
        trail.append(trail[-1][value])
    left = [listener for listener in trail[-1][tests] if listener.key != key]
    if left:
        trail[-1][tests] = left
        return
    steps: list[Any] = [*path, tests]
    while trail:
        node = trail.pop()
        del node[steps.pop()]
        if node:
            return
