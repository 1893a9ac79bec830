"""Any history of events, runs and waiting, told to something that brakes, and held against what brakes promise."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triggers.brakes import Debounce, KeyOf, OverlapRule, RateLimit
from triggers.counted import Counted
from triggers.masking import Mask, Rule

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEYS = st.sampled_from(["a", "b"])
BY_KEY = "{event.properties.k}"
SECONDS = timedelta(seconds=1)

How = Literal["start", "wait", "drop"]


def event(key: str) -> dict[str, Any]:
    return {"event": "e", "properties": {"k": key}}


class Braking(Protocol):
    """What is under test."""

    def masked(self, mask: Mask, key: str, now: datetime) -> tuple[Counted, ...]:
        """What counts an event that passes; nothing where it does not."""

    def limited(self, rule: RateLimit, key: str, now: datetime) -> tuple[Counted, ...]:
        """The same of a rate limit."""

    def give_back(self, counted: tuple[Counted, ...], now: datetime) -> None:
        """Something later stopped the event that this counted."""

    def hold(self, rule: Debounce, key: str, name: str, now: datetime) -> list[tuple[str, int]]:
        """Hold an event; what goes on first: names, each with how many events it stands for."""

    def release(self, now: datetime) -> list[tuple[str, int]]:
        """What goes on by now."""

    def ask(self, rule: OverlapRule, key: str, run: str, now: datetime) -> tuple[How, set[str]]:
        """Ask for a run; what became of it, and which others were over by that."""

    def act(self, run: str) -> None:
        """A run that began acts: it stops only some time after it was asked to."""

    def end(self, run: str, now: datetime) -> None:
        """A run is over."""

    def cancel(self, run: str, now: datetime) -> None:
        """A person cancels a run that does not act."""

    def under_way(self, key: str) -> tuple[Sequence[str], Sequence[str]]:
        """The runs of a key that began, and those that wait, in their order."""


@dataclass
class Group:
    """Events of a key that debounce makes one of, told by their definition alone."""

    times: list[datetime] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def due(self, rule: Debounce) -> datetime:
        return min(self.times[-1] + rule.quiet, self.times[0] + rule.longest)


@dataclass(eq=False)
class Match:
    """A match that fired, and how many it masked since."""

    masked: int = 0


@dataclass(eq=False)
class Matches:
    """A window of a mask, told by its definition alone."""

    started_at: datetime
    fired: list[Match] = field(default_factory=list)


@dataclass(eq=False)
class Standing:
    """What counted an event that has started a run, or may still."""

    counted: tuple[Counted, ...]
    undo: Callable[[], None]


class Brakes(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.braking = self.make()
        self.now = START
        self.number = 0
        self.windows: dict[str, Matches] = {}
        self.passed: dict[str, list[datetime]] = defaultdict(list)
        self.standing: list[Standing] = []
        self.groups: dict[str, Group] = {}
        self.went: list[tuple[str, int]] = []
        self.expected: list[tuple[str, int]] = []
        self.order: dict[str, list[str]] = defaultdict(list)
        self.acting: set[str] = set()

    def make(self) -> Braking:
        """What brakes in this history."""
        raise NotImplementedError

    @initialize(
        ttl=st.integers(1, 90),
        threshold=st.sampled_from([0, 2, 3]),
        count=st.integers(1, 3),
        period=st.integers(1, 20),
        quiet=st.integers(1, 8),
        more=st.integers(0, 12),
        policy=st.sampled_from(["skip", "queue", "restart", "parallel"]),
        maximum=st.integers(1, 3),
    )
    def begin(
        self, ttl: int, threshold: int, count: int, period: int, quiet: int, more: int, policy: Any, maximum: int
    ) -> None:
        self.mask = Mask(BY_KEY, Rule(ttl * SECONDS, threshold))
        self.limit = RateLimit(count, period * SECONDS, KeyOf(BY_KEY, "trigger_rate_limit"))
        self.debounce = Debounce(quiet * SECONDS, (quiet + more) * SECONDS, KeyOf(BY_KEY, "trigger_debounce"))
        self.overlap = OverlapRule(policy, maximum, KeyOf(BY_KEY, "trigger_overlap"))

    def _name(self) -> str:
        self.number += 1
        return f"n{self.number}"

    @rule(seconds=st.integers(0, 12))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECONDS

    @rule(key=KEYS)
    def comes_to_the_mask(self, key: str) -> None:
        counted = self.braking.masked(self.mask, key, self.now)
        window = self.windows.get(key)
        if window is None or self.now >= window.started_at + self.mask.rule.ttl:
            window = self.windows[key] = Matches(self.now)
        every, fired = self.mask.rule.threshold, window.fired
        if fired and not (every and fired[-1].masked == every - 1):
            assert not counted
            fired[-1].masked += 1
            return
        assert counted
        match = Match()
        fired.append(match)
        self.standing.append(Standing(counted, lambda: self._unmatched(key, window, match)))

    def _unmatched(self, key: str, window: Matches, match: Match) -> None:
        if window.fired[-1] is match:  # else another has fired in its turn
            window.fired.pop()
        if not window.fired and self.windows.get(key) is window:
            del self.windows[key]

    @rule(key=KEYS)
    def comes_to_the_limit(self, key: str) -> None:
        counted, now = self.braking.limited(self.limit, key, self.now), self.now
        within = [at for at in self.passed[key] if at > now - self.limit.period]
        assert bool(counted) == (len(within) < self.limit.count)
        if counted:
            self.passed[key].append(now)
            self.standing.append(Standing(counted, lambda: self.passed[key].remove(now)))

    @precondition(lambda self: self.standing)
    @rule(which=st.integers(0, 99))
    def something_later_stops_an_event_that_passed(self, which: int) -> None:
        """Sooner or later: its window or period may be over."""
        one = self.standing.pop(which % len(self.standing))
        self.braking.give_back(one.counted, self.now)
        one.undo()

    @rule(key=KEYS)
    def comes_to_debounce(self, key: str) -> None:
        name = self._name()
        self.went += self.braking.hold(self.debounce, key, name, self.now)
        group = self.groups.get(key)
        if group is not None and group.due(self.debounce) <= self.now:
            self._goes_on(key)
        group = self.groups.setdefault(key, Group())
        group.times.append(self.now)
        group.names.append(name)
        assert self.went == self.expected

    @rule()
    def somebody_looks(self) -> None:
        self.went += self.braking.release(self.now)
        due = {key: group.due(self.debounce) for key, group in self.groups.items()}
        for key in sorted((key for key, at in due.items() if at <= self.now), key=due.__getitem__):
            self._goes_on(key)
        assert sorted(self.went) == sorted(self.expected)
        self.went = list(self.expected)

    def _goes_on(self, key: str) -> None:
        group = self.groups.pop(key)
        self.expected.append((group.names[-1], len(group.names)))

    @rule(key=KEYS)
    def asks_for_a_run(self, key: str) -> None:
        run, (acting, waiting) = self._name(), self.braking.under_way(key)
        how, over = self.braking.ask(self.overlap, key, run, self.now)
        others, policy = len(acting) + len(waiting), self.overlap.policy
        assert (policy == "restart") or not over
        if others == 0:
            assert how == "start"
        elif policy == "skip":
            assert how == "drop"
        elif policy == "parallel":
            assert how == ("start" if len(acting) < self.overlap.maximum else "drop")
        elif policy == "queue":
            assert how == ("wait" if len(waiting) < self.overlap.maximum else "drop")
        else:
            stopping = self.acting & set(acting)
            assert over == {*acting, *waiting} - stopping
            assert how == ("wait" if stopping else "start")
        if how != "drop":
            self.order[key].append(run)

    @precondition(lambda self: self._begun())
    @rule(which=st.integers(0, 99), acts=st.booleans())
    def a_run_goes_on(self, which: int, acts: bool) -> None:
        begun = self._begun()
        run = begun[which % len(begun)]
        if acts:
            self.braking.act(run)
            self.acting.add(run)
        else:
            self.braking.end(run, self.now)
            self.acting.discard(run)

    @precondition(lambda self: self._waiting())
    @rule(which=st.integers(0, 99))
    def one_that_waits_is_cancelled(self, which: int) -> None:
        waiting = self._waiting()
        self.braking.cancel(waiting[which % len(waiting)], self.now)

    def _begun(self) -> list[str]:
        return [run for key in ("a", "b") for run in self.braking.under_way(key)[0]]

    def _waiting(self) -> list[str]:
        return [run for key in ("a", "b") for run in self.braking.under_way(key)[1]]

    @invariant()
    def the_overlap_policy_holds(self) -> None:
        if not hasattr(self, "overlap"):
            return
        for key in ("a", "b"):
            acting, waiting = self.braking.under_way(key)
            most = self.overlap.maximum if self.overlap.policy == "parallel" else 1
            queue = {"queue": self.overlap.maximum, "restart": 1}.get(self.overlap.policy, 0)
            assert len(acting) <= most
            assert len(waiting) <= queue
            assert acting or not waiting, "those that wait are not forgotten"
            order = self.order[key]
            assert [*acting, *waiting] == sorted([*acting, *waiting], key=order.index), "each in its turn"
