"""Brakes that come after the mask, each a pure decision of a state and now.

Rate limit: of the events of a key, `count` pass within any `period`; the others are dropped, and count for nothing.
What passed and started nothing after all counts for nothing either.
Debounce: events of a key are held until none came for `quiet`, `longest` after the first at most; the last goes on.
Overlap: what becomes of an event while runs that earlier ones started are under way.

Events whose key is null, false, 0 or empty, or cannot be rendered, count together: else whoever leaves out the property
that a loop is braked by would be held back by nothing. Unverified events count apart from verified ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from loops.definition.brakes import DEBOUNCE, OVERLAP, RATE_LIMIT, Brakes
from loops.definition.schema.brakes import Overlap
from triggers.keys import EventJson, Key, KeyTemplate, Unkeyed, apart_words, digest_of, instant_words, shown_key

Policy = Literal["skip", "queue", "restart", "parallel"]


@dataclass(slots=True)
class KeyOf:
    """What a brake counts by; without a template all events together."""

    source: str | None
    path: str
    _template: KeyTemplate | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._template = None if self.source is None else KeyTemplate(self.source, f"{self.path}.key", "key")

    def of(self, event: EventJson, now: datetime) -> Key:
        """The key of an event, as templates see it, at `now`."""
        apart = apart_words(event)
        if self._template is None:
            return Key(digest_of(event, None), "", apart)
        text = self._template.text(event, now)
        if isinstance(text, Unkeyed):
            lacks = f"all that have none count together, {text.reason}"
            return Key(digest_of(event, self.source, ""), "", "; ".join(filter(None, (lacks, apart))))
        return Key(digest_of(event, self.source, text), shown_key(text), apart)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many events pass within any period."""

    count: int
    period: timedelta
    key: KeyOf


@dataclass(frozen=True, slots=True)
class Limited:
    """The instants of those that passed within the last period, the earliest first, and whether this one did too."""

    passed: tuple[datetime, ...]
    passes: bool


def limit(rule: RateLimit, passed: Sequence[datetime], now: datetime) -> Limited:
    """What becomes of an event at `now`; `passed` are the instants of those that passed before."""
    kept = sorted(at for at in passed if at > now - rule.period)
    if len(kept) >= rule.count:
        return Limited(tuple(kept), passes=False)
    return Limited(tuple(sorted([*kept, now])), passes=True)


def without(passed: Sequence[datetime], at: datetime) -> tuple[datetime, ...]:
    """What passed, without one that did so at this instant."""
    place = passed.index(at)
    return (*passed[:place], *passed[place + 1 :])


def limit_words(rule: RateLimit, limited: Limited, key: Key) -> str:
    """What was decided, for people."""
    within = f"within {span(rule.period)}{key_words(key)}"
    if limited.passes:
        return f"rate limit: {len(limited.passed)} of {rule.count} {within}"
    free = limited.passed[len(limited.passed) - rule.count] + rule.period
    passed = "1 event has" if rule.count == 1 else f"{rule.count} events have"
    return f"{passed} passed {within}, the most; the next passes at {instant_words(free)}"


@dataclass(frozen=True, slots=True)
class Debounce:
    """How long nothing may have come, and how long to wait for that at most."""

    quiet: timedelta
    longest: timedelta
    key: KeyOf


@dataclass(frozen=True, slots=True)
class Held:
    """Events of a key that wait: when the first and the last came, how many, and when the last of them goes on."""

    first_at: datetime
    last_at: datetime
    due_at: datetime
    count: int


def hold(rule: Debounce, held: Held | None, now: datetime) -> Held:
    """What waits once an event came at `now`. What was due by then has gone on, and it is the first of the next."""
    if held is None or now >= held.due_at:
        return Held(now, now, now + min(rule.quiet, rule.longest), 1)
    last = max(held.last_at, now)
    return Held(held.first_at, last, min(last + rule.quiet, held.first_at + rule.longest), held.count + 1)


def hold_words(rule: Debounce, held: Held, key: Key) -> str:
    """What is said of an event while it waits."""
    return (
        f"held until {instant_words(held.due_at)}, unless another event{key_words(key)} comes before: then that one is "
        f"held in its place, until {instant_words(held.first_at + rule.longest)} at the latest"
    )


def released_words(count: int, shown: str) -> str:
    """What is said of the event that goes on."""
    of = f" (key {shown!r})" if shown else ""
    return f"debounce: the only one{of}" if count == 1 else f"debounce: the last of {count} events{of}"


@dataclass(frozen=True, slots=True)
class OverlapRule:
    """What becomes of an event while a run is under way; `maximum` is how many wait (queue), or run (parallel)."""

    policy: Policy
    maximum: int
    key: KeyOf


@dataclass(frozen=True, slots=True)
class Admission:
    """`start` at once, `wait` until those before it are over, `drop`, or `replace` them: cancel all, then start."""

    how: Literal["start", "wait", "drop", "replace"]
    reason: str = ""


def admit(rule: OverlapRule, acting: Sequence[str], waiting: Sequence[str], key: Key) -> Admission:
    """What becomes of an event while these runs of its key are under way, and these wait for them."""
    if not acting and not waiting:
        return Admission("start")
    behind = _runs(acting or waiting)
    of, told = key_words(key), f"(overlap: {rule.policy})"
    if rule.policy == "restart":
        return Admission("replace", f"{behind}{of} {_is(acting or waiting)} cancelled for it {told}")
    if rule.policy == "skip":
        return Admission("drop", f"{behind}{of} {_is(acting or waiting)} under way {told}")
    if rule.policy == "parallel":
        if len(acting) < rule.maximum:
            return Admission("start")
        return Admission("drop", f"{behind}{of} {_is(acting)} under way, the most at once is {rule.maximum} {told}")
    if len(waiting) < rule.maximum:
        return Admission("wait", f"waits for {behind}{of}, as number {len(waiting) + 1} of {rule.maximum} {told}")
    wait = "1 waits" if rule.maximum == 1 else f"{len(waiting)} wait"
    return Admission("drop", f"{behind}{of} {_is(acting or waiting)} under way, and {wait} for it, the most {told}")


_MOST_NAMED = 3


def _runs(ids: Sequence[str]) -> str:
    named = ", ".join(ids[:_MOST_NAMED])
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"run {named}" if len(ids) == 1 else f"runs {named}{more}"


def _is(ids: Sequence[str]) -> str:
    return "is" if len(ids) == 1 else "are"


def key_words(key: Key) -> str:
    """By which key it was decided, in brackets; empty where there is nothing to say."""
    told = "; ".join(filter(None, (f"key {key.shown!r}" if key.shown else "", key.note)))
    return f" ({told})" if told else ""


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(length: timedelta) -> str:
    """As in `90 s`, `5 min`, `1 h`: in the largest unit that it is a whole number of."""
    seconds = int(length.total_seconds())
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The brakes of a listener."""

    rate_limit: RateLimit | None = None
    debounce: Debounce | None = None
    overlap: OverlapRule | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The brakes that there are, for people."""
        given = (("rate limit", self.rate_limit), ("debounce", self.debounce), ("overlap", self.overlap))
        return tuple(name for name, rule in given if rule is not None)


def rules_of(brakes: Brakes, *, maskable: bool = True) -> Rules | None:
    """The brakes that a workflow's definition describes, None for none. What is not `maskable` is started by people or
    schedules: overlap alone holds for it."""
    rate, debounce = (brakes.rate_limit, brakes.debounce) if maskable else (None, None)
    if rate is None and debounce is None and brakes.overlap is None:
        return None
    limits = holds = None
    if rate is not None:
        limits = RateLimit(rate.count, timedelta(seconds=rate.period), KeyOf(rate.key, RATE_LIMIT))
    if debounce is not None:
        quiet, longest = timedelta(seconds=debounce.quiet), timedelta(seconds=debounce.longest)
        holds = Debounce(quiet, longest, KeyOf(debounce.key, DEBOUNCE))
    return Rules(limits, holds, overlap_rule(brakes.overlap))


def overlap_rule(overlap: Overlap | None) -> OverlapRule | None:
    """The overlap policy that a workflow's definition describes; None for none."""
    if overlap is None:
        return None
    return OverlapRule(overlap.policy, getattr(overlap, "maximum", 1), KeyOf(overlap.key, OVERLAP))
