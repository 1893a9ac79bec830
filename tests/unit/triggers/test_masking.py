"""Masks. The numbers are those of the cases that PostHog's own tests pin (case), or of our derived ones (d)."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from loops.definition import listening_mask
from loops.definition.schema.parts import Masking
from triggers.keys import Key
from triggers.masking import LONGEST_WINDOW, Mask, Rule, Unmasked, Window, decide, given_back, mask_of, words

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALL = "all"
BY_PERSON = "{person.id}"
BY_PERSON_AND_EVENT = "{concat(person.id, event.event)}"
BY_DAY = "{concat(toString(person.id), '-', formatDateTime(now(), '%Y-%m-%d'))}"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def mask(text: str = ALL, ttl: int | None = None, threshold: int | None = None) -> Mask:
    made = mask_of(Masking(hash=text, ttl=ttl, threshold=threshold))
    assert made is not None
    return made


def event(name: str = "opened", person: str | None = "ada", **properties: Any) -> dict[str, Any]:
    who = None if person is None else {"id": person, "name": "", "properties": {}}
    return {"uuid": "u", "event": name, "distinct_id": "ada", "properties": properties, "person": who, "groups": {}}


class Masks:
    """The windows of one workflow after another, as a store keeps them."""

    def __init__(self) -> None:
        self.windows: dict[tuple[str, str], Window] = {}
        self.said = ""

    def passes(self, mask: Mask, *, seconds: float = 0, workflow: str = "w", **told: Any) -> bool:
        key = mask.key(event(**told), at(seconds))
        if isinstance(key, Unmasked):
            self.said = key.reason
            return True
        place = workflow, key.digest
        decision = decide(mask.rule, self.windows.get(place), at(seconds))
        self.windows[place] = decision.window
        self.said = words(mask.rule, decision)
        return decision.fires


@pytest.fixture
def masks() -> Masks:
    return Masks()


def test_cases_1_and_2_no_masking_is_no_mask():
    assert mask_of(None) is None
    assert listening_mask(None, {"type": "event", "filters": {}}) is None


def test_cases_3_4_and_16_of_the_same_hash_the_first_passes_and_the_others_do_not(masks):
    made = mask()
    assert [masks.passes(made) for _ in range(3)] == [True, False, False]
    assert [masks.passes(made, seconds=1) for _ in range(3)] == [False, False, False]


def test_case_5_the_same_hash_of_two_workflows_is_independent(masks):
    made = mask()
    assert [masks.passes(made, workflow=one) for one in ("a", "b", "a", "b")] == [True, True, False, False]


def test_case_6_mq_08_a_window_ends_a_ttl_after_its_first_match_and_no_later(masks):
    made = mask(ttl=60)
    fired = [second for second in (0, 1, 59, 61, 62, 119, 120.5, 121, 122) if masks.passes(made, seconds=second)]
    assert fired == [0, 61, 121]


def test_mq_06_a_day_ends_after_a_day(masks):
    made, hour = mask(ttl=86_400), 3600
    assert masks.passes(made)
    assert not masks.passes(made, seconds=24 * hour - 60)
    assert masks.passes(made, seconds=24 * hour + 60)
    assert not masks.passes(made, seconds=48 * hour)
    assert masks.passes(made, seconds=48 * hour + 60)


def test_a_window_has_ended_when_its_ttl_is_over_to_the_microsecond(masks):
    made = mask(ttl=60)
    assert masks.passes(made)
    assert not masks.passes(made, seconds=59.999999)
    assert masks.passes(made, seconds=60)


def test_case_7_events_may_be_masked_by_person_by_all_or_by_person_and_event(masks):
    arrivals = [
        (BY_PERSON, "ada", "a"), (BY_PERSON, "bob", "a"), (ALL, "ada", "a"),
        (BY_PERSON_AND_EVENT, "ada", "a"), (BY_PERSON_AND_EVENT, "ada", "b"), (BY_PERSON_AND_EVENT, "bob", "a"),
        (BY_PERSON, "ada", "b"),
    ]  # fmt: skip

    def again() -> list[bool]:
        return [masks.passes(mask(text), workflow=text, person=who, name=what) for text, who, what in arrivals]

    assert again() == [True] * 6 + [False]
    assert again() == [False] * 7


def test_case_8_a_threshold_samples_one_of_so_many(masks):
    made = mask(threshold=5)
    assert [number for number in range(1, 12) if masks.passes(made)] == [1, 6, 11]


def test_case_9_a_threshold_samples_the_matches_of_one_batch_alike(masks):
    made = mask(threshold=5)
    assert sum(masks.passes(made) for _ in range(10)) == 2
    assert masks.passes(made)


def test_mq_08_a_threshold_of_three_fires_on_one_four_and_seven(masks):  # D2
    made = mask(threshold=3)
    assert [number for number in range(1, 9) if masks.passes(made)] == [1, 4, 7]


def test_a_threshold_counts_within_a_window(masks):
    made = mask(ttl=60, threshold=3)
    fired = [second for second in (0, 1, 2, 3, 58, 61, 62, 63, 64) if masks.passes(made, seconds=second)]
    assert fired == [0, 3, 61, 64]


@pytest.mark.parametrize(
    ("hours", "name", "passes"),
    [(1, "opened", False), (24, "opened", True), (1, "closed", False)],
)
def test_cases_10_and_19_a_hash_with_the_day_passes_once_a_day(masks, hours, name, passes):
    made = mask(BY_DAY)
    assert masks.passes(made)
    assert masks.passes(made, seconds=hours * 3600, name=name) is passes


def test_case_11_another_event_of_the_same_day_passes_where_the_hash_has_its_name(masks):
    made = mask("{concat(person.id, event.event, formatDateTime(now(), '%Y-%m-%d'))}")
    assert [masks.passes(made, name=name) for name in ("opened", "closed", "opened")] == [True, True, False]


def test_cases_12_and_14_without_a_ttl_a_window_lasts_three_years():  # Loops masks workflows alone, so none has a day
    made = mask()
    assert made.rule.ttl == LONGEST_WINDOW == timedelta(seconds=94_608_000)


def test_case_13_a_ttl_of_a_year_is_a_year():  # likewise
    assert mask(ttl=365 * 86_400).rule.ttl == timedelta(days=365)


def test_case_18_once_ever_is_once_a_person(masks):
    made = mask(BY_PERSON)
    assert [masks.passes(made, seconds=86_400 * 300 * n) for n in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BY_PERSON, "not masked: its hash is null"),  # d17
        ("{event.properties.none}", "not masked: its hash is null"),
        ("{event.properties.zero}", "not masked: its hash is 0"),  # d19
        ("{event.properties.no}", "not masked: its hash is false"),
        ("{event.properties.empty}", "not masked: its hash is empty"),
        ("{event.properties.empty}{event.properties.none}", "not masked: its hash is empty"),
        ("{1 / 0 - 1 / 0}", "not masked: its hash is null"),
        (
            "{upper(event.properties.none)}",
            "not masked: its hash could not be rendered: upper() needs a text, not null",
        ),
        (
            "{event.properties.big}{event.properties.big}",
            "not masked: its hash could not be rendered: the template makes",
        ),
        ("{nothing.here}", "not masked: its hash could not be rendered: `nothing` is not known here"),
        ("{event.", "not masked: its hash could not be rendered: nothing closes"),
    ],
)
def test_a_hash_that_is_falsy_or_fails_masks_nothing_and_says_so(masks, text, told):  # D3, MQ-08
    properties = {"zero": 0, "no": False, "empty": "", "none": None, "big": "x" * 600_000}
    made = mask(text)
    assert [masks.passes(made, person=None, **properties) for _ in range(3)] == [True] * 3
    assert masks.said.startswith(told)
    assert masks.windows == {}


def test_text_around_a_missing_person_is_one_hash_for_all(masks):  # d18
    made = mask("{person.id}-x")
    assert [masks.passes(made, person=None) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("text", ["{event.properties.list}", "{event.properties.map}", "{true}", "{'0'}", "{-1}"])
def test_a_hash_that_is_anything_else_masks(masks, text):
    made = mask(text)
    assert [masks.passes(made, list=[], map={}) for _ in range(2)] == [True, False]


def test_the_hash_sees_event_and_person_and_nothing_else(masks):
    made = mask("{event.groups}{event.person}{event.properties.channel}{person.id}")
    key = made.key(event(channel="C1"), START)
    assert isinstance(key, Key)
    assert key.shown == "C1ada"


def test_what_is_shown_of_a_hash_is_short_and_can_be_stored():
    made = mask("{event.properties.text}")
    key, mended = (made.key(event(text=text + "x" * 500), START) for text in ("a\x00b\ud800", "a\ufffdb\ufffd"))
    assert isinstance(key, Key)
    assert isinstance(mended, Key)
    assert key.shown.startswith("a\ufffdb\ufffdxx")
    assert len(key.shown) == 80
    assert (key.shown, key.digest != mended.digest) == (mended.shown, True)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (mask(ttl=3600, threshold=2), True),
        (mask(ttl=7200, threshold=2), False),
        (mask(ttl=3600, threshold=3), False),
        (mask(ttl=3600), False),
        (mask("{'all'}", ttl=3600, threshold=2), False),
    ],
)
def test_an_edit_that_changes_what_is_counted_begins_anew(other, same):
    one, another = (made.key(event(), START) for made in (mask(ttl=3600, threshold=2), other))
    assert isinstance(one, Key)
    assert isinstance(another, Key)
    assert (one.digest == another.digest) is same


def test_spelling_out_what_is_meant_anyway_changes_nothing():
    digests = {mask(ttl=ttl, threshold=n).key(event(), START) for ttl in (None, 94_608_000) for n in (None, 0)}
    assert len(digests) == 1


def test_what_nobody_proved_to_have_sent_masks_apart():
    verified, other = (mask().key({**event(), "verified": proved}, START) for proved in (True, False))
    assert isinstance(verified, Key)
    assert isinstance(other, Key)
    assert verified == mask().key(event(), START)
    assert verified.digest != other.digest


def test_different_hashes_never_share_a_window():
    made = mask("{event.properties.a}{event.properties.b}")
    keys = [made.key(event(**told), START) for told in ({"a": "x"}, {"a": "y"}, {"a": 1}, {"b": None, "a": "null"})]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("kind", ["manual", "schedule"])
def test_what_is_started_by_hand_or_by_the_clock_is_never_masked(kind):
    config = {"type": kind, **({"template_id": "template-source-webhook"} if kind == "manual" else {})}
    assert listening_mask({"hash": "all"}, config) is None


@pytest.mark.parametrize(
    "config",
    [
        {"type": "webhook", "template_id": "template-source-webhook"},
        {"type": "event", "filters": {}},
        {"type": "internal-event", "filters": {"events": [{"id": "$github_event_received"}]}},
    ],
    ids=lambda config: config["type"],
)
def test_events_and_webhooks_are_masked(config):
    assert listening_mask({"hash": "all", "ttl": 60}, config) == Masking(hash="all", ttl=60)


# Given back


@pytest.mark.parametrize(
    ("threshold", "count", "number", "left"),
    [
        (0, 1, 1, None),
        (0, 5, 1, None),  # with those that it masked
        (3, 4, 4, 3),
        (3, 6, 4, 3),
        (3, 3, 1, None),
        (3, 4, 1, 4),  # another has fired in its turn
        (3, 2, 4, 2),
    ],
)
def test_a_match_is_given_back_with_those_that_it_masked(threshold, count, number, left):
    window = Window(START, count)
    assert given_back(threshold, window, number) == (None if left is None else Window(START, left))


# Words


def test_what_is_said_of_a_threshold_tells_when_it_fires_next(masks):  # D2
    made = mask(ttl=3600, threshold=3)
    said = []
    for _ in range(5):
        masks.passes(made)
        said.append(masks.said)
    end = "its window ends at 2026-11-30 13:00:00 UTC"
    assert said == [
        f"match 1 of 3; fires next at 4; {end}",
        f"match 2 of 3; fires next at 4; {end}",
        f"match 3 of 3; fires next at 4; {end}",
        f"match 4 of the window, 1 of 3; fires next at 7; {end}",
        f"match 5 of the window, 2 of 3; fires next at 7; {end}",
    ]


def test_what_is_said_of_a_masked_event_tells_when_the_hash_passed_and_until_when_it_is_masked(masks):
    made = mask(ttl=3600)
    masks.passes(made)
    assert masks.said == "the same hash is masked from now on; its window ends at 2026-11-30 13:00:00 UTC"
    masks.passes(made, seconds=5)
    end = "its window ends at 2026-11-30 13:00:00 UTC"
    assert masks.said == f"the same hash passed at 2026-11-30 12:00:00 UTC, {end}"


# Properties

rules = st.builds(
    Rule, st.integers(60, 10_000).map(lambda seconds: timedelta(seconds=seconds)), st.sampled_from([0, 1, 2, 3, 7])
)


@given(rules, st.lists(st.integers(0, 5_000), max_size=40))
def test_the_matches_of_a_window_fire_as_its_threshold_says(made, gaps):
    window, seconds, matches = None, 0, 0
    for gap in gaps:
        seconds += gap
        decision = decide(made, window, at(seconds))
        begins = window is None or at(seconds) - window.started_at >= made.ttl
        matches = 1 if begins else matches + 1
        assert decision.window == Window(at(seconds) if begins or window is None else window.started_at, matches)
        assert decision.fires is (
            matches == 1 or (made.threshold > 0 and matches % made.threshold == 1 % made.threshold)
        )
        window = decision.window


@given(rules, st.integers(1, 10_000), st.integers(-100, 100))
def test_a_match_that_arrived_before_the_window_began_is_counted_in_it(made, count, before):
    window = Window(START, count)
    decision = decide(made, window, START - timedelta(seconds=abs(before)))
    assert decision.window == Window(START, count + 1)


class MaskMachine(RuleBasedStateMachine):
    """Events of a few hashes at a clock that goes on by leaps, against a model that remembers every one of them."""

    @initialize(ttl=st.integers(60, 400), threshold=st.sampled_from([None, 2, 3, 5]))
    def begin(self, ttl: int, threshold: int | None) -> None:
        self.made = mask("{event.properties.channel}", ttl, threshold)
        self.every = threshold
        self.ttl = ttl
        self.masks = Masks()
        self.clock = 0
        self.seen: dict[str, list[int]] = {}
        self.fired: Counter[str] = Counter()
        self.matched: Counter[str] = Counter()

    @rule(seconds=st.integers(0, 500))
    def wait(self, seconds: int) -> None:
        self.clock += seconds

    @rule(channel=st.sampled_from(["C1", "C2", "C3"]))
    def match(self, channel: str) -> None:
        window = self.seen.setdefault(channel, [])
        if window and self.clock - window[0] >= self.ttl:
            window.clear()
        window.append(self.clock)
        expected = len(window) == 1 if self.every is None else len(window) % self.every == 1
        passes = self.masks.passes(self.made, seconds=self.clock, channel=channel)
        assert passes is expected
        self.fired[channel] += passes
        self.matched[channel] += 1

    @rule()
    def match_without_a_hash(self) -> None:
        before = dict(self.masks.windows)
        assert self.masks.passes(self.made, seconds=self.clock, channel="")
        assert self.masks.windows == before

    @invariant()
    def whoever_matched_has_fired_and_not_more_often_than_matched(self) -> None:
        for channel, count in getattr(self, "matched", Counter()).items():
            assert 0 < self.fired[channel] <= count


TestMaskMachine = MaskMachine.TestCase
