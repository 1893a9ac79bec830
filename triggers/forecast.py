"""A draft held against what came, as if it had been live: the same brakes and quotas, over states in memory.

Told what arrived in the order of its arrival, it counts what each event would have come to. Times are those of arrival;
what debounce holds goes on when it is due, a run ends when it has lasted as long as such runs do.
"""

import heapq
import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter

from loops.event import Event, event_json
from triggers.brakes import Held, OverlapRule, Rules, admit, hold, limit
from triggers.counted import Counted, undo
from triggers.forecast_quotas import Assumed, Quotas, Tally
from triggers.keys import EventJson, Key
from triggers.masking import Mask, Unmasked, Window
from triggers.masking import decide as decide_mask

_HOUR = timedelta(hours=1)
_ANSWERING = frozenset({"github", "slack"})


@dataclass(frozen=True, slots=True)
class _Came:
    event: Event
    delivery: str
    counted: list[Counted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Held:
    held: Held
    came: _Came


@dataclass(eq=False, slots=True)
class _Run:
    place: str | None
    delivery: str
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
        self._quotas = Quotas(assumed, self.tally)
        self._running = 0

    def stopped(self, at: datetime, stage: str, delivery: str = "") -> None:
        """An event of this delivery came that did not get past the filters, or was stopped right after them."""
        self.tally.count(stage, at, delivery)

    def arrive(self, at: datetime, event: Event, delivery: str = "") -> None:
        """An event of this delivery came that got past the filters."""
        self._go_on(at)
        if self._is_over_limit(event, at):
            self.tally.count("subject_limit", at, delivery)
            return
        if event.claim is not None:
            if event.claim in self._claims:
                self.tally.count("claim", at, delivery)
                return
            if event.verified:  # what is not takes its fact by starting a run
                self._claims.add(event.claim)
        told = event_json(event) if self._mask is not None or self._rules.names else {}
        came = _Came(event, delivery)
        if self._is_masked(told, at, came):
            self._stop("mask", at, came)
        elif self._is_limited(told, at, came):
            self._stop("rate_limit", at, came)
        elif not self._is_held(told, at, came):
            self._ask(came, at)

    def occur(self, at: datetime, event: Event) -> None:
        """A schedule was due: of the brakes only overlap holds for it."""
        self._go_on(at)
        self._ask(_Came(event, ""), at)

    def close(self, until: datetime) -> Tally:
        """The period is over; what debounce still holds has neither started nor been dropped."""
        self._go_on(until, including=True)
        self.tally.pending = len(self._held)
        for one in self._held.values():
            self.tally.count("debounce", one.held.last_at, one.came.delivery)
        return self.tally

    def _go_on(self, until: datetime, *, including: bool = False) -> None:
        """What happened by itself before then. At one instant what arrives comes first, as in a batch of dispatch."""
        while self._ahead and (self._ahead[0][0] < until or (including and self._ahead[0][0] == until)):
            at, _, what = heapq.heappop(self._ahead)
            if isinstance(what, _Run):
                self._end(what, at)
            elif what in self._held and self._held[what].held.due_at == at:
                self._let_go(what, at)

    def _is_over_limit(self, event: Event, at: datetime) -> bool:
        most, subject = self._assumed.subject_runs, event.subject
        if not most or subject is None or event.source not in _ANSWERING:
            return False
        own = self._subjects[subject]
        while own and own[0][0] <= at - _HOUR:
            own.popleft()
        others = self._assumed.other_runs.get(subject, ())
        # Not those of this very instant: of a document they may be what the loop itself started later within it.
        begin, end = bisect_right(others, at - _HOUR, key=itemgetter(0)), bisect_left(others, at, key=itemgetter(0))
        known = {uuid for _, uuid in (*own, *others[begin:end])}
        return len(known - {event.uuid}) >= most

    def _stop(self, stage: str, at: datetime, came: _Came) -> None:
        """It starts nothing, so what counted it is given back."""
        self.tally.count(stage, at, came.delivery)
        for one in came.counted:
            undo(one, self._windows, self._passed)

    def _is_masked(self, told: EventJson, at: datetime, came: _Came) -> bool:
        if self._mask is None or self._mask.rule.threshold == 1:
            return False
        key = self._mask.key(told, at)
        if isinstance(key, Unmasked):
            return False
        decision = decide_mask(self._mask.rule, self._windows.get(key.digest), at)
        window = self._windows[key.digest] = decision.window
        if decision.fires:
            threshold = self._mask.rule.threshold
            came.counted.append(Counted("mask", key.digest, window.started_at, window.count, threshold))
        return not decision.fires

    def _is_limited(self, told: EventJson, at: datetime, came: _Came) -> bool:
        rule = self._rules.rate_limit
        key = None if rule is None else rule.key.of(told, at)
        if rule is None or key is None:
            return False
        limited = limit(rule, self._passed.get(key.digest, ()), at)
        self._passed[key.digest] = limited.passed
        if limited.passes:
            came.counted.append(Counted("rate_limit", key.digest, at))
        return not limited.passes

    def _is_held(self, told: EventJson, at: datetime, came: _Came) -> bool:
        rule = self._rules.debounce
        key = None if rule is None else rule.key.of(told, at)
        if rule is None or key is None:
            return False
        before = self._held.get(key.digest)
        if before is not None and at >= before.held.due_at:
            self._let_go(key.digest, at)
            before = None
        if before is not None:
            self._stop("debounce", before.held.last_at, before.came)
        held = hold(rule, None if before is None else before.held, at)
        self._held[key.digest] = _Held(held, came)
        heapq.heappush(self._ahead, (held.due_at, next(self._order), key.digest))
        return True

    def _let_go(self, digest: str, at: datetime) -> None:
        """What debounce held goes on, where its fact is left and its subject still may."""
        came = self._held.pop(digest).came
        if not came.event.verified and came.event.claim in self._claims:
            self._stop("claim", at, came)
        elif self._is_over_limit(came.event, at):
            self._stop("subject_limit", at, came)
        else:
            self._ask(came, at)

    def _ask(self, came: _Came, at: datetime) -> None:
        """What becomes of an event that got past all but overlap."""
        rule = self._rules.overlap
        key = None if rule is None else rule.key.of(event_json(came.event), at)
        if rule is None or key is None:
            self._started(came, at)
            self._begin(_Run(None, came.delivery), at)
            return
        run = self._admitted(rule, key, at, came.delivery)
        if run is None:
            self._stop("overlap", at, came)
            return
        self._started(came, at)
        if run not in self._waiting[key.digest]:
            self._acting[key.digest].append(run)
            self._begin(run, at)

    def _admitted(self, rule: OverlapRule, key: Key, at: datetime, delivery: str) -> _Run | None:
        acting, waiting = self._acting[key.digest], self._waiting[key.digest]
        how = admit(rule, ["run"] * len(acting), ["run"] * len(waiting), key).how
        if how == "drop":
            return None
        run = _Run(key.digest, delivery)
        if how == "replace":
            self.tally.replaced += len(acting) + len(waiting)
            waiting.clear()
            for one in list(acting):
                self._end(one, at)
        if how == "wait":
            self.tally.waited += 1
            waiting.append(run)
        return run

    def _started(self, came: _Came, at: datetime) -> None:
        event = came.event
        self.tally.count("start", at, came.delivery)
        if event.claim is not None:
            self._claims.add(event.claim)
        if self._assumed.subject_runs and event.subject is not None:
            self._subjects[event.subject].append((at, event.uuid))

    def _begin(self, run: _Run, at: datetime) -> None:
        for _ in range(self._assumed.tasks):
            run.tasks += self._quotas.create(at, self._running + run.tasks, run.delivery)
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
