"""Any history of events, runs and waiting, told to something that brakes, and held against what brakes promise."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triggers.brakes import Debounce, KeyOf, OverlapRule, RateLimit

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEYS = st.sampled_from(["a", "b"])
BY_KEY = "{event.properties.k}"
SECONDS = timedelta(seconds=1)

How = Literal["start", "wait", "drop"]


def event(key: str) -> dict[str, Any]:
    return {"event": "e", "properties": {"k": key}}


class Braking(Protocol):
    """What is under test."""

    def limited(self, rule: RateLimit, key: str, now: datetime) -> bool:
        """Whether an event passes."""

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


class Brakes(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.braking = self.make()
        self.now = START
        self.number = 0
        self.passed: dict[str, list[datetime]] = defaultdict(list)
        self.groups: dict[str, Group] = {}
        self.went: list[tuple[str, int]] = []
        self.expected: list[tuple[str, int]] = []
        self.order: dict[str, list[str]] = defaultdict(list)
        self.acting: set[str] = set()

    def make(self) -> Braking:
        """What brakes in this history."""
        raise NotImplementedError

    @initialize(
        count=st.integers(1, 3),
        period=st.integers(1, 20),
        quiet=st.integers(1, 8),
        more=st.integers(0, 12),
        policy=st.sampled_from(["skip", "queue", "restart", "parallel"]),
        maximum=st.integers(1, 3),
    )
    def begin(self, count: int, period: int, quiet: int, more: int, policy: Any, maximum: int) -> None:
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
    def comes_to_the_limit(self, key: str) -> None:
        passes = self.braking.limited(self.limit, key, self.now)
        within = [at for at in self.passed[key] if at > self.now - self.limit.period]
        assert passes == (len(within) < self.limit.count)
        if passes:
            self.passed[key].append(self.now)

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
