"""Which loops want this event: an index of the exact keys of their filters, so that cost follows the few that fit.

A listener stands at a leaf that is found by the event's name and by those of a few fields for which it wants certain
values. Listeners that name the same fields share a table, so an event is looked up once a table, however many
listeners there are. At a leaf they stand in groups that want the same actions and leave the same to test (is_set,
icontains, ...), so that a test runs once for all who ask for it. Adding or removing a listener touches its own leaves
only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, product
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from loops.event import Event, JsonValue
from loops.filters import Comparison, Condition, Filter
from triggers.brakes import Rules
from triggers.masking import Mask
from triggers.source import Topic
from triggers.verdict import Verdict

TriggerKind: TypeAlias = Literal["internal-event", "event", "webhook"]

NEAR_MISSES = 20
_KINDS: Mapping[str, TriggerKind] = {"posthog": "event", "webhook": "webhook"}

# What a leaf is found by, beside the event's name. Never by actor_access: it may have to be looked up,
# and is asked for last.
_PLACE = ("repository", "event_type", "channel")
_PROPERTIES = (*_PLACE, "action")
# A listener whose lists multiply to more leaves than this leaves its later fields to be tested.
_MOST_LEAVES = 1000
_MOST_FOUND = 10_000

_Test: TypeAlias = Callable[[Event], bool]
_Actions: TypeAlias = frozenset[str] | None
_Group: TypeAlias = tuple[_Actions, tuple[_Test, ...]]
# Actions, tests and listeners of one group behind those of another, in one piece: with many loops each object that is
# looked at costs a way to memory. A leaf of many groups is a dict, so that adding one does not go through all. An event
# that passes at one group alone is answered with that group's tuple of listeners, so that none of them is touched.
_Leaf: TypeAlias = tuple[Any, ...] | dict[_Group, tuple["Listener", ...]]
_MOST_IN_ONE_PIECE = 3 * 32


class _Table(NamedTuple):
    """The leaves of those who want certain values of the same fields; `pick` makes the key of a leaf from a place."""

    fields: tuple[int, ...]
    pick: Callable[[tuple[Any, ...]], Any]
    leaves: dict[Any, _Leaf]


class _Standing(NamedTuple):
    """Where a filter stands: in the tables of these names and fields, at these places, in this group."""

    names: tuple[str | None, ...]
    fields: tuple[int, ...]
    places: tuple[tuple[str | None, ...], ...]
    group: _Group


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
    brakes: Rules | None = None
    asks_access: bool = False


class Matches(NamedTuple):
    """Who wants the event, and who nearly does, as they stand together: stopped by the action or by a test."""

    event: Event
    passed: tuple[Listener, ...] = ()
    nearly: tuple[tuple[Listener, ...], ...] = ()

    @property
    def missed(self) -> tuple[Listener, ...]:
        """Who nearly wants it, at most 20 of them."""
        return tuple(islice(chain.from_iterable(self.nearly), NEAR_MISSES))

    @property
    def near(self) -> tuple[tuple[Listener, tuple[Comparison, ...]], ...]:
        """The near misses with what was compared, worked out when asked for."""
        return tuple((listener, listener.filter.explain(self.event)) for listener in self.missed)


# As a call of the class, at half its cost: one is made for every event.
_made = tuple.__new__


class Index:
    """The listeners of all projects, ready to be asked about one event at a time. For one thread."""

    def __init__(self) -> None:
        # By project, kind and event name, None for every name. Read by another thread: replaced, never changed.
        self._tables: dict[tuple[str, TriggerKind, str | None], tuple[_Table, ...]] = {}
        # Those of one name and of every name together, by project, source and event name, as they were asked for.
        self._found: dict[tuple[str, str, str], tuple[_Table, ...]] = {}
        self._listeners: dict[str, Listener] = {}
        self._asking: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def __contains__(self, key: str) -> bool:
        return key in self._listeners

    def listeners(self) -> list[Listener]:
        """Every listener, in no particular order."""
        return list(self._listeners.values())

    def get(self, key: str) -> Listener | None:
        """The listener with this key."""
        return self._listeners.get(key)

    def add(self, listener: Listener) -> None:
        """Add a listener, in place of the one with its key if there is one."""
        self.remove(listener.key)
        self._listeners[listener.key] = listener
        if listener.asks_access:
            self._asking[listener.project_id] = self._asking.get(listener.project_id, 0) + 1
        standing = _standing(listener.filter)
        for name in standing.names:
            table = self._table((listener.project_id, listener.kind, name), standing.fields)
            for place in standing.places:
                key = table.pick(place)
                leaf = table.leaves.get(key, ())
                table.leaves[key] = _with(leaf, standing.group, (*_at(leaf, standing.group), listener))

    def _table(self, where: tuple[str, TriggerKind, str | None], fields: tuple[int, ...]) -> _Table:
        tables = self._tables.get(where, ())
        for table in tables:
            if table.fields == fields:
                return table
        made = _Table(fields, _picker(fields), {})
        self._tables[where] = (*tables, made)
        self._found = {}
        return made

    def remove(self, key: str) -> None:
        """Forget a listener; an unknown key is no error."""
        listener = self._listeners.pop(key, None)
        if listener is None:
            return
        if listener.asks_access:
            self._asking[listener.project_id] -= 1
        standing = _standing(listener.filter)
        for name in standing.names:
            where = (listener.project_id, listener.kind, name)
            table = self._table(where, standing.fields)
            for place in standing.places:
                _take_away(table, place, standing.group, listener)
            if not table.leaves:
                self._drop(where, table)

    def _drop(self, where: tuple[str, TriggerKind, str | None], table: _Table) -> None:
        left = tuple(one for one in self._tables[where] if one is not table)
        if left:
            self._tables[where] = left
        else:
            del self._tables[where]
        self._found = {}

    def reaches(self, project_id: str, source: str, topic: Topic) -> bool:
        """Whether `match` could name anyone, as passed or as missed, for an event of this topic.

        Reads single entries only, so it may be asked while another thread adds and removes.
        """
        place = (topic.repository, topic.event_type, topic.channel)
        return any(pick(place) in leaves for _, pick, leaves in self._tables_of(project_id, source, topic.event))

    def match(self, project_id: str, event: Event) -> Matches:
        """Everyone in the project who wants the event, in no particular order."""
        tables = self._found.get((project_id, event.source, event.name))
        if tables is None:
            tables = self._tables_of(project_id, event.source, event.name)
        if not tables:
            return _made(Matches, (event, (), ()))
        get = event.properties.get
        repository, event_type, channel, action = get("repository"), get("event_type"), get("channel"), get("action")
        if type(repository) is str:
            repository = repository.lower()
        place = (repository, event_type, channel)
        # Strings and nothing are compared as they are, all else by coercion. Written out: each event passes here.
        if (
            (type(repository) is not str and repository is not None)
            or (type(event_type) is not str and event_type is not None)
            or (type(channel) is not str and channel is not None)
            or (type(action) is not str and action is not None)
        ):
            return _matched_by_coercion(tables, place, event)
        leaves = []
        for _, pick, standing in tables:
            leaf = standing.get(pick(place))
            if leaf is not None:
                leaves.append(leaf)
        return _decided(leaves, action, event) if leaves else _made(Matches, (event, (), ()))

    def _tables_of(self, project_id: str, source: str, name: str) -> tuple[_Table, ...]:
        # Taken before the tables are read: what another thread finds before a change goes where nobody looks any more.
        found, kind = self._found, _kind_from(source)
        tables = self._tables.get((project_id, kind, name), ()) + self._tables.get((project_id, kind, None), ())
        if tables and len(found) < _MOST_FOUND:
            found[(project_id, source, name)] = tables
        return tables

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
    """Why a loop starts or does not start on an event, also where the index would never have led to the loop."""

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
    brakes = [*(["mask"] if listener.mask else []), *(listener.brakes.names if listener.brakes else ())]
    unknown = f"; whether its {' and '.join(brakes)} would have let it pass is not worked out again" if brakes else ""
    return verdict("start", f"every filter passed{unknown}", compared)


def _decided(leaves: list[_Leaf], action: JsonValue, event: Event) -> Matches:
    """Who is left at the leaves once actions and tests were looked at."""
    passed: list[tuple[Listener, ...]] = []
    missed: list[tuple[Listener, ...]] = []
    other: list[tuple[Listener, ...]] = []  # whom the action keeps out: near misses where there is room for more
    for leaf in leaves:
        pieces = iter(_in_one_piece(leaf) if isinstance(leaf, dict) else leaf)
        for actions, tests, listeners in zip(pieces, pieces, pieces, strict=True):
            if actions is not None and action not in actions:
                other.append(listeners)
                continue
            for test in tests:
                if not test(event):
                    missed.append(listeners)
                    break
            else:
                passed.append(listeners)
    if not passed:
        found: tuple[Listener, ...] = ()
    else:
        found = passed[0] if len(passed) == 1 else tuple(chain.from_iterable(passed))
    return _made(Matches, (event, found, (*missed, *other)))


def _matched_by_coercion(tables: tuple[_Table, ...], place: tuple[JsonValue, ...], event: Event) -> Matches:
    """For an event with a field that is no string: it may equal any string, so all leaves are looked at there.

    The whole filter decides then, as not everything was compared on the way.
    """
    reached = {
        listener.key: listener
        for table in tables
        for leaf in _leaves_by_coercion(table, place)
        for listeners in (leaf.values() if isinstance(leaf, dict) else leaf[2::3])
        for listener in listeners
    }
    passed: list[Listener] = []
    missed: list[Listener] = []
    for listener in reached.values():
        (passed if listener.filter.matches(event) else missed).append(listener)
    return Matches(event, tuple(passed), (tuple(missed),) if missed else ())


def _leaves_by_coercion(table: _Table, place: tuple[JsonValue, ...]) -> list[_Leaf]:
    fields, pick, leaves = table
    wanted = [place[field] for field in fields]
    if all(map(_is_as_it_is, wanted)):
        leaf = leaves.get(pick(place))
        return [] if leaf is None else [leaf]
    return [
        leaf
        for key, leaf in leaves.items()
        for values in ((key,) if len(fields) == 1 else key,)  # as `pick` makes them
        if all(not _is_as_it_is(one) or one == value for one, value in zip(wanted, values, strict=True))
    ]


def _is_as_it_is(value: JsonValue) -> bool:
    """Whether a value is compared as it is."""
    return value is None or type(value) is str


@lru_cache(maxsize=len(_PLACE) ** 2)
def _picker(fields: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Any]:
    return itemgetter(*fields) if fields else lambda _place: ()


def _standing(wanted: Filter) -> _Standing:
    """Where a filter stands, and what is left to test there."""
    names = wanted.event_names
    levels: list[frozenset[str] | None] = [names, *(wanted.exact.get(key) for key in _PLACE)]
    leaves = 1
    for number, values in enumerate(levels):
        if values is not None and leaves * len(values) <= _MOST_LEAVES:
            leaves *= len(values)
        else:
            levels[number] = None
    actions = wanted.exact.get("action")
    settled = dict(zip(_PROPERTIES, (*levels[1:], actions), strict=True))
    tests: list[_Test] = [one.test for one in wanted.predicates if not _is_settled(one, settled)]
    if levels[0] != names:
        tests.insert(0, wanted.hears_event)
    if wanted.alternatives:
        tests.append(wanted.fits_an_alternative)
    ways = [(None,) if values is None else sorted(values) for values in levels]
    fields = tuple(number for number, values in enumerate(levels[1:]) if values is not None)
    return _Standing(tuple(ways[0]), fields, tuple(product(*ways[1:])), _group(actions, tuple(tests)))


@lru_cache(maxsize=1024)
def _group(actions: _Actions, tests: tuple[_Test, ...]) -> _Group:
    """The same object for the same group: most leaves have the same few."""
    return actions, tests


def _is_settled(condition: Condition, settled: Mapping[str, frozenset[str] | None]) -> bool:
    """Whether reaching a leaf, and a group there, says already that the condition holds."""
    values = settled.get(condition.key)
    return condition.exact is not None and values is not None and values <= condition.exact


def _take_away(table: _Table, place: tuple[str | None, ...], group: _Group, listener: Listener) -> None:
    """Take a listener from a leaf, and with it whatever is empty then."""
    key = table.pick(place)
    leaf = table.leaves[key]
    left = _with(leaf, group, tuple(one for one in _at(leaf, group) if one is not listener))
    if left:
        table.leaves[key] = left
    else:
        del table.leaves[key]


def _at(leaf: _Leaf, group: _Group) -> tuple[Listener, ...]:
    """Who stands at a leaf in this group."""
    if isinstance(leaf, dict):
        return leaf.get(group, ())
    return next((leaf[at + 2] for at in range(0, len(leaf), 3) if leaf[at : at + 2] == group), ())


def _with(leaf: _Leaf, group: _Group, listeners: tuple[Listener, ...]) -> _Leaf:
    """The leaf with these in the group; without the group where they are none."""
    if isinstance(leaf, dict):
        if listeners:
            leaf[group] = listeners
        else:
            leaf.pop(group, None)
        return leaf
    at = next((at for at in range(0, len(leaf), 3) if leaf[at : at + 2] == group), len(leaf))
    changed = (*leaf[:at], *((*group, listeners) if listeners else ()), *leaf[at + 3 :])
    if len(changed) <= _MOST_IN_ONE_PIECE:
        return changed
    pieces = iter(changed)
    return {(actions, tests): those for actions, tests, those in zip(pieces, pieces, pieces, strict=True)}


def _in_one_piece(leaf: Mapping[_Group, tuple[Listener, ...]]) -> Iterator[Any]:
    return (piece for group, listeners in leaf.items() for piece in (*group, listeners))
