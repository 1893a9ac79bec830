"""Brakes after the mask as pure decisions: any history, the words, and what has no key."""

from collections import defaultdict
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from loops.definition.brakes import Brakes as Defined
from loops.definition.schema.brakes import Debounce as DebounceShape
from loops.definition.schema.brakes import ParallelOverlap
from loops.definition.schema.brakes import RateLimit as RateShape
from tests.unit.triggers.brake_machine import START, Brakes, How, event
from triggers.brakes import (
    Debounce,
    Held,
    KeyOf,
    OverlapRule,
    RateLimit,
    admit,
    hold,
    hold_words,
    limit,
    limit_words,
    released_words,
    rules_of,
    span,
)
from triggers.counted import Counted, undo
from triggers.keys import Key
from triggers.masking import Mask, Window, decide

ALL = KeyOf(None, "trigger_overlap")
KEY = Key("d", "acme/a")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Remembered:
    """The decisions over states that stand in memory."""

    def __init__(self) -> None:
        self.windows: dict[str, Window] = {}
        self.passed: dict[str, tuple[datetime, ...]] = defaultdict(tuple)
        self.held: dict[str, tuple[str, Held]] = {}
        self.begun: dict[str, list[str]] = defaultdict(list)
        self.waits: dict[str, list[str]] = defaultdict(list)
        self.acts: set[str] = set()

    def masked(self, mask: Mask, key: str, now: datetime) -> tuple[Counted, ...]:
        decision = decide(mask.rule, self.windows.get(key), now)
        window = self.windows[key] = decision.window
        every = mask.rule.threshold
        return (Counted("mask", key, window.started_at, window.count, every),) if decision.fires else ()

    def limited(self, rule: RateLimit, key: str, now: datetime) -> tuple[Counted, ...]:
        came = limit(rule, self.passed[key], now)
        self.passed[key] = came.passed
        return (Counted("rate_limit", key, now),) if came.passes else ()

    def give_back(self, counted: tuple[Counted, ...], now: datetime) -> None:
        for one in counted:
            undo(one, self.windows, self.passed)

    def hold(self, rule: Debounce, key: str, name: str, now: datetime) -> list[tuple[str, int]]:
        before = self.held.get(key)
        after = hold(rule, None if before is None else before[1], now)
        self.held[key] = (name, after)
        return [] if before is None or after.count > 1 else [(before[0], before[1].count)]

    def release(self, now: datetime) -> list[tuple[str, int]]:
        due = {key: one for key, one in self.held.items() if one[1].due_at <= now}
        for key in due:
            del self.held[key]
        return [(name, held.count) for name, held in due.values()]

    def ask(self, rule: OverlapRule, key: str, run: str, now: datetime) -> tuple[How, set[str]]:
        came, over = admit(rule, self.begun[key], self.waits[key], KEY), set()
        if came.how == "replace":
            over = {*self.begun[key], *self.waits[key]} - self.acts
            self.begun[key] = [one for one in self.begun[key] if one in self.acts]
            self.waits[key] = []
        how: How = "drop" if came.how == "drop" else "start"
        if came.how == "wait" or (came.how == "replace" and self.begun[key]):
            how = "wait"
        if how != "drop":
            (self.waits if how == "wait" else self.begun)[key].append(run)
        return how, over

    def act(self, run: str) -> None:
        self.acts.add(run)

    def end(self, run: str, now: datetime) -> None:
        for key, begun in self.begun.items():
            if run in begun:
                begun.remove(run)
                if not begun and self.waits[key]:
                    begun.append(self.waits[key].pop(0))

    def cancel(self, run: str, now: datetime) -> None:
        for waits in self.waits.values():
            if run in waits:
                waits.remove(run)

    def under_way(self, key: str) -> tuple[list[str], list[str]]:
        return list(self.begun[key]), list(self.waits[key])


class InMemory(Brakes):
    def make(self) -> Remembered:
        return Remembered()


def test_any_history_is_braked_as_promised():
    run_state_machine_as_test(InMemory, settings=settings(max_examples=60, stateful_step_count=40))


def test_no_period_wherever_it_begins_has_more_than_the_limit_lets_pass():
    rule = RateLimit(2, seconds(10), ALL)
    passed: tuple[datetime, ...] = ()
    let: list[float] = []
    for at in (0, 6, 9, 9.9, 10, 12, 16, 19.9, 20):
        came = limit(rule, passed, START + seconds(at))
        passed = came.passed
        let += [at] if came.passes else []
    assert let == [0, 6, 10, 16, 20]


def test_an_event_that_arrived_earlier_than_one_that_passed_is_counted_with_it():
    rule = RateLimit(1, seconds(10), ALL)
    first = limit(rule, (), START)
    assert not limit(rule, first.passed, START - seconds(3)).passes


def test_what_is_dropped_counts_for_nothing():
    rule = RateLimit(1, seconds(10), ALL)
    passed = limit(rule, (), START).passed
    for at in (4, 8):
        passed = limit(rule, passed, START + seconds(at)).passed
    assert limit(rule, passed, START + seconds(10)).passes


def test_a_key_that_never_rests_goes_on_at_the_latest_after_the_longest_wait():
    rule, held = Debounce(seconds(10), seconds(25), ALL), None
    for at in range(0, 25, 5):
        held = hold(rule, held, START + seconds(at))
    assert held == Held(START, START + seconds(20), START + seconds(25), 5)
    assert hold(rule, held, START + seconds(25)).count == 1


def test_an_event_that_comes_late_does_not_shorten_the_wait():
    rule = Debounce(seconds(10), seconds(60), ALL)
    held = hold(rule, hold(rule, None, START + seconds(5)), START)
    assert (held.last_at, held.due_at) == (START + seconds(5), START + seconds(15))


def test_each_brake_tells_what_it_counted():
    rate = RateLimit(2, seconds(3600), ALL)
    one = limit(rate, (), START)
    two = limit(rate, one.passed, START + seconds(60))
    assert limit_words(rate, one, KEY) == "rate limit: 1 of 2 within 1 h (key 'acme/a')"
    assert limit_words(rate, limit(rate, two.passed, START + seconds(90)), Key("d", "")) == (
        "2 events have passed within 1 h, the most; the next passes at 2026-11-30 13:00:00 UTC"
    )
    debounce = Debounce(seconds(60), seconds(300), ALL)
    assert hold_words(debounce, hold(debounce, None, START), KEY) == (
        "held until 2026-11-30 12:01:00 UTC, unless another event (key 'acme/a') comes before: then that one is held "
        "in its place, until 2026-11-30 12:05:00 UTC at the latest"
    )
    assert released_words(3, "") == "debounce: the last of 3 events"
    assert released_words(1, "k") == "debounce: the only one (key 'k')"


@pytest.mark.parametrize(
    ("policy", "maximum", "acting", "waiting", "how", "reason"),
    [
        ("skip", 1, ["r1"], [], "drop", "run r1 (key 'acme/a') is under way (overlap: skip)"),
        ("parallel", 2, ["r1"], [], "start", ""),
        (
            "parallel", 2, ["r1", "r2"], [], "drop",
            "runs r1, r2 (key 'acme/a') are under way, the most at once is 2 (overlap: parallel)",
        ),
        ("queue", 2, ["r1"], ["r2"], "wait", "waits for run r1 (key 'acme/a'), as number 2 of 2 (overlap: queue)"),
        (
            "queue", 1, ["r1"], ["r2"], "drop",
            "run r1 (key 'acme/a') is under way, and 1 waits for it, the most (overlap: queue)",
        ),
        ("restart", 1, ["r1"], ["r2"], "replace", "run r1 (key 'acme/a') is cancelled for it (overlap: restart)"),
        (
            "skip", 1, ["r1", "r2", "r3", "r4", "r5"], [], "drop",
            "runs r1, r2, r3 and 2 more (key 'acme/a') are under way (overlap: skip)",
        ),
    ],
)  # fmt: skip
def test_each_policy_tells_what_it_did_and_of_which_run(policy, maximum, acting, waiting, how, reason):
    came = admit(OverlapRule(policy, maximum, ALL), acting, waiting, KEY)
    assert (came.how, came.reason) == (how, reason)


@pytest.mark.parametrize("text", ["{event.properties.none}", "{upper(event.properties.none)}", "{false}"])
def test_events_whose_key_says_nothing_count_together_and_are_told_so(text):
    one, other = (KeyOf(text, "trigger_debounce").of(event(key), START) for key in "ab")
    assert (one, one.shown) == (other, "")
    assert one.note.startswith("all that have none count together, its key ")
    assert one.digest not in {KeyOf(text, "trigger_debounce").of(event("a") | {"verified": False}, START).digest}


@pytest.mark.parametrize("text", [None, "{event.properties.k}", "{event.properties.none}"])
def test_what_nobody_proved_to_have_sent_counts_apart(text):
    told = [event("a"), event("a") | {"verified": True}, event("a") | {"verified": False}]
    digests = [KeyOf(text, "trigger_rate_limit").of(one, START) for one in told]
    assert digests[0] == digests[1]
    assert digests[0].digest != digests[2].digest
    assert "of unverified events" in digests[2].note


def test_without_a_key_all_events_count_together_and_with_one_each_by_itself():
    both = {KeyOf(None, "p").of(event(one), START) for one in "ab"}
    each = {KeyOf("{event.properties.k}", "p").of(event(one), START) for one in "ab"}
    assert (len(both), len(each)) == (1, 2)


def test_brakes_of_what_people_and_schedules_start_are_its_overlap_alone():
    defined = Defined(
        RateShape(count=1, period=60), DebounceShape(quiet=1, longest=2), ParallelOverlap(policy="parallel", maximum=3)
    )
    every, alone = rules_of(defined), rules_of(defined, maskable=False)
    assert every is not None
    assert every.names == ("rate limit", "debounce", "overlap")
    assert alone is not None
    assert alone.names == ("overlap",)
    assert rules_of(Defined()) is None


@pytest.mark.parametrize(("length", "words"), [(1, "1 s"), (90, "90 s"), (120, "2 min"), (7200, "2 h"), (86400, "1 d")])
def test_a_span_is_told_in_its_largest_whole_unit(length, words):
    assert span(seconds(length)) == words
