"""A draft held against what came, as if it had been live: the same brakes and quotas, over states in memory.

Told what arrived in the order of its arrival, it counts what each event would have come to. Times are those of arrival;
what debounce holds goes on when it is due, a run ends when it has lasted as long as such runs do.
"""

import heapq
import itertools
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter

from loops.event import Event, event_json
from loops.tasks.quota import WINDOW, QuotaLimits, QuotaUsage, Refused, decide
from triggers.brakes import Held, OverlapRule, Rules, admit, hold, limit
from triggers.keys import EventJson, Key, Unkeyed
from triggers.masking import Mask, Unmasked, Window
from triggers.masking import decide as decide_mask

_HOUR = timedelta(hours=1)
_ANSWERING = frozenset({"github", "slack"})


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a forecast goes by beside the events.

    Each run creates `tasks` tasks and `lasts` so long; `limits` are the quotas, and `other_tasks` when other workflows
    created tasks. `subject_runs` events of one subject may start runs within an hour (0: any number), and `other_runs`
    are those that started runs of other workflows: when, and which. Both in their order.
    """

    tasks: int = 0
    lasts: timedelta = timedelta(minutes=5)
    limits: QuotaLimits = field(default_factory=QuotaLimits)
    other_tasks: Sequence[datetime] = ()
    subject_runs: int = 0
    other_runs: Mapping[str, Sequence[tuple[datetime, str]]] = field(default_factory=dict)


@dataclass(slots=True)
class Peak:
    """The most that was used of a quota, and when first."""

    most: int = 0
    at: datetime | None = None


@dataclass(slots=True)
class Tally:
    """What came of it: verdicts by stage, and by hour and stage; tasks that were created, and refused by quota.

    Of the runs that start, `waited` had to wait for their turn and `replaced` were cancelled for a newer one. `pending`
    is what debounce still held in the end.
    """

    counts: "Counter[str]" = field(default_factory=Counter)
    hours: "dict[datetime, Counter[str]]" = field(default_factory=lambda: defaultdict(Counter))
    created: int = 0
    refused: "Counter[str]" = field(default_factory=Counter)
    first_refused: dict[str, datetime] = field(default_factory=dict)
    peaks: dict[str, Peak] = field(default_factory=lambda: defaultdict(Peak))
    waited: int = 0
    replaced: int = 0
    pending: int = 0

    def count(self, stage: str, at: datetime) -> None:
        self.counts[stage] += 1
        self.hours[at.replace(minute=0, second=0, microsecond=0)][stage] += 1


@dataclass(slots=True)
class _Held:
    key: Key
    held: Held
    event: Event


@dataclass(eq=False, slots=True)
class _Run:
    place: str | None
    tasks: int = 0
    over: bool = False


class Forecaster:
    """One forecast."""

    def __init__(self, mask: Mask | None, rules: Rules | None, assumed: Assumed) -> None:
        self.tally = Tally()
        self._mask = mask
        self._rules = rules or Rules()
        self._assumed = assumed
        self._claims: set[str] = set()
        self._windows: dict[str, Window] = {}
        self._passed: dict[str, tuple[datetime, ...]] = {}
        self._held: dict[str, _Held] = {}
        self._acting: dict[str, list[_Run]] = defaultdict(list)
        self._waiting: dict[str, deque[_Run]] = defaultdict(deque)
        self._ahead: list[tuple[datetime, int, _Run | str]] = []  # ends of runs, and keys whose event is due
        self._order = itertools.count()
        self._subjects: dict[str, deque[tuple[datetime, str]]] = defaultdict(deque)
        self._created: deque[datetime] = deque()
        self._others: deque[datetime] = deque()
        self._others_left = iter(assumed.other_tasks)
        self._next_other = next(self._others_left, None)
        self._running = 0

    def stopped(self, at: datetime, stage: str) -> None:
        """An event came that did not get past the filters, or was stopped right after them."""
        self.tally.count(stage, at)

    def arrive(self, at: datetime, event: Event) -> None:
        """An event came that got past the filters."""
        self._go_on(at)
        if self._is_over_limit(event, at):
            self.tally.count("subject_limit", at)
            return
        if event.claim is not None:
            if event.claim in self._claims:
                self.tally.count("claim", at)
                return
            self._claims.add(event.claim)
        told = event_json(event) if self._mask is not None or self._rules.names else {}
        if self._is_masked(told, at):
            self.tally.count("mask", at)
        elif self._is_limited(told, at):
            self.tally.count("rate_limit", at)
        elif not self._is_held(event, told, at):
            self._ask(event, at)

    def occur(self, at: datetime, event: Event) -> None:
        """A schedule was due: of the brakes only overlap holds for it."""
        self._go_on(at)
        self._ask(event, at)

    def close(self, until: datetime) -> Tally:
        """The period is over; what debounce still holds has neither started nor been dropped."""
        self._go_on(until, including=True)
        self.tally.pending = len(self._held)
        for one in self._held.values():
            self.tally.count("debounce", one.held.last_at)
        return self.tally

    def _go_on(self, until: datetime, *, including: bool = False) -> None:
        """What happened by itself before then. At one instant what arrives comes first, as in a batch of dispatch."""
        while self._ahead and (self._ahead[0][0] < until or (including and self._ahead[0][0] == until)):
            at, _, what = heapq.heappop(self._ahead)
            if isinstance(what, _Run):
                self._end(what, at)
            elif what in self._held and self._held[what].held.due_at == at:
                self._ask(self._held.pop(what).event, at)

    def _is_over_limit(self, event: Event, at: datetime) -> bool:
        most, subject = self._assumed.subject_runs, event.subject
        if not most or subject is None or event.source not in _ANSWERING:
            return False
        own = self._subjects[subject]
        while own and own[0][0] <= at - _HOUR:
            own.popleft()
        others = self._assumed.other_runs.get(subject, ())
        begin, end = (bisect_right(others, moment, key=itemgetter(0)) for moment in (at - _HOUR, at))
        known = {uuid for _, uuid in (*own, *others[begin:end])}
        return len(known - {event.uuid}) >= most

    def _is_masked(self, told: EventJson, at: datetime) -> bool:
        if self._mask is None or self._mask.rule.threshold == 1:
            return False
        key = self._mask.key(told, at)
        if isinstance(key, Unmasked):
            return False
        decision = decide_mask(self._mask.rule, self._windows.get(key.digest), at)
        self._windows[key.digest] = decision.window
        return not decision.fires

    def _is_limited(self, told: EventJson, at: datetime) -> bool:
        rule = self._rules.rate_limit
        key = None if rule is None else rule.key.of(told, at)
        if rule is None or not isinstance(key, Key):
            return False
        limited = limit(rule, self._passed.get(key.digest, ()), at)
        self._passed[key.digest] = limited.passed
        return not limited.passes

    def _is_held(self, event: Event, told: EventJson, at: datetime) -> bool:
        rule = self._rules.debounce
        key = None if rule is None else rule.key.of(told, at)
        if rule is None or not isinstance(key, Key):
            return False
        before = self._held.get(key.digest)
        if before is not None and at >= before.held.due_at:
            self._ask(self._held.pop(key.digest).event, at)
            before = None
        if before is not None:
            self.tally.count("debounce", before.held.last_at)
        held = hold(rule, None if before is None else before.held, at)
        self._held[key.digest] = _Held(key, held, event)
        heapq.heappush(self._ahead, (held.due_at, next(self._order), key.digest))
        return True

    def _ask(self, event: Event, at: datetime) -> None:
        """What becomes of an event that got past all but overlap."""
        rule = self._rules.overlap
        key = None if rule is None else rule.key.of(event_json(event), at)
        if rule is None or isinstance(key, Unkeyed) or key is None:
            self._started(event, at)
            self._begin(_Run(None), at)
            return
        run = self._admitted(rule, key, at)
        if run is None:
            self.tally.count("overlap", at)
            return
        self._started(event, at)
        if run not in self._waiting[key.digest]:
            self._acting[key.digest].append(run)
            self._begin(run, at)

    def _admitted(self, rule: OverlapRule, key: Key, at: datetime) -> _Run | None:
        acting, waiting = self._acting[key.digest], self._waiting[key.digest]
        how = admit(rule, ["run"] * len(acting), ["run"] * len(waiting), key).how
        if how == "drop":
            return None
        run = _Run(key.digest)
        if how == "replace":
            self.tally.replaced += len(acting) + len(waiting)
            waiting.clear()
            for one in list(acting):
                self._end(one, at)
        if how == "wait":
            self.tally.waited += 1
            waiting.append(run)
        return run

    def _started(self, event: Event, at: datetime) -> None:
        self.tally.count("start", at)
        if self._assumed.subject_runs and event.subject is not None:
            self._subjects[event.subject].append((at, event.uuid))

    def _begin(self, run: _Run, at: datetime) -> None:
        for _ in range(self._assumed.tasks):
            run.tasks += self._creates_task(at)
        self._running += run.tasks
        if run.place is not None or run.tasks:
            heapq.heappush(self._ahead, (at + self._assumed.lasts, next(self._order), run))

    def _end(self, run: _Run, at: datetime) -> None:
        if run.over:
            return
        run.over = True
        self._running -= run.tasks
        if run.place is None:
            return
        acting, waiting = self._acting[run.place], self._waiting[run.place]
        acting.remove(run)
        if waiting and not acting:
            following = waiting.popleft()
            acting.append(following)
            self._begin(following, at)

    def _creates_task(self, at: datetime) -> bool:
        while self._next_other is not None and self._next_other <= at:
            self._others.append(self._next_other)
            self._next_other = next(self._others_left, None)
        for created in (self._created, self._others):
            while created and created[0] <= at - WINDOW:
                created.popleft()
        usage = QuotaUsage(self._created, [*self._created, *self._others], self._running)
        refused = decide(at, usage, self._assumed.limits)
        if isinstance(refused, Refused):
            self.tally.refused[refused.quota] += 1
            self.tally.first_refused.setdefault(refused.quota, at)
            return False
        self._created.append(at)
        self.tally.created += 1
        used = {"workflow": len(self._created), "project": len(usage.project) + 1, "parallel": self._running + 1}
        for quota, number in used.items():
            if number > self.tally.peaks[quota].most:
                self.tally.peaks[quota] = Peak(number, at)
        return True
