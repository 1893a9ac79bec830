"""What is to be done about a schedule that is due, and what its event is."""

from collections import Counter
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.schedules.tables import DAILY, HOURLY, at, cron, table
from triggers.schedule.event import to_event
from triggers.schedule.plan import MOST_AT_ONCE, plan

BERLIN = "Europe/Berlin"
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(("begin", "hours"), [("2026-03-28T23:30", 4), ("2026-10-24T22:30", 4)])
@pytest.mark.parametrize(
    ("found", "count"),
    [
        (table(DAILY, "2026-01-01T02:30:00", BERLIN), 1),
        (cron("30 2 * * *", BERLIN), 1),
        (table(HOURLY, "2026-01-01T00:00:00", BERLIN), 4),
        (cron("0 * * * *", BERLIN), 4),
    ],
)
def test_sc06_second_by_second_over_the_hour_in_which_clocks_change(found, count, begin, hours):
    moment = at(begin)
    due, looked, fired = found.next_after(moment), 0, Counter[str]()
    for _ in range(hours * 3600):
        moment += SECOND
        if due is not None and moment >= due:
            looked += 1
            planned = plan(found, due, "last", moment)
            fired.update(one.outcome for one in planned.occurrences)
            due = planned.next_due
    assert (dict(fired), looked) == ({"ran": count}, count)


@pytest.mark.parametrize(
    ("catch_up", "outcomes"),
    [("last", ["missed", "missed", "late"]), ("none", ["missed"] * 3), ("all", ["late"] * 3)],
)
def test_d17_what_was_missed_is_made_good_by_the_policy(catch_up, outcomes):
    planned = plan(table(HOURLY), at("2026-06-15T09:00"), catch_up, at("2026-06-15T11:30"))
    assert [one.outcome for one in planned.occurrences] == outcomes
    assert [one.at.hour for one in planned.occurrences] == [9, 10, 11]
    assert planned.next_due == at("2026-06-15T12:00")


def test_a_minute_is_in_time():
    found = table(HOURLY)
    for policy in ("last", "none", "all"):
        assert plan(found, at("2026-06-15T09:00"), policy, at("2026-06-15T09:01:00")).occurrences[0].outcome == "ran"
        late = plan(found, at("2026-06-15T09:00"), policy, at("2026-06-15T09:01:01")).occurrences[0]
        assert late.outcome == ("missed" if policy == "none" else "late")


def test_what_is_late_says_by_how_much():
    (one,) = plan(table("FREQ=WEEKLY"), at("2026-06-15T09:00"), "last", at("2026-06-17T12:05")).occurrences
    assert one.reason == "nothing fired it in time: 2 d 3 h 5 min late"


def test_a_schedule_that_ends_has_nothing_due():
    planned = plan(table("FREQ=DAILY;COUNT=1"), at("2026-01-05T09:00"), "last", at("2026-01-05T09:00:05"))
    assert ([one.outcome for one in planned.occurrences], planned.next_due) == (["ran"], None)


@given(st.sampled_from(["none", "last", "all"]), st.integers(0, 100_000), st.sampled_from([DAILY, HOURLY]))
@settings(max_examples=60)
def test_the_future_alone_is_due_and_nothing_is_told_twice(catch_up, minutes, rule):
    found, begin = table(rule, zone=BERLIN), at("2026-03-01T00:00")
    due = found.next_after(begin)
    assert due is not None
    now = due + timedelta(minutes=minutes)
    planned = plan(found, due, catch_up, now)
    told = [one.at for one in planned.occurrences]
    assert told == sorted(set(told))
    assert len(told) <= MOST_AT_ONCE
    assert planned.next_due == found.next_after(now)
    assert planned.next_due is not None
    assert told[-1] <= now < planned.next_due
    started = [one for one in planned.occurrences if one.outcome in ("ran", "late")]
    assert len(started) <= {"none": 1, "last": 1, "all": MOST_AT_ONCE}[catch_up]


def test_the_event_of_an_occurrence_is_the_same_whoever_makes_it_and_has_no_person():
    moment, zone = at("2026-06-15T07:00"), ZoneInfo(BERLIN)
    one, other = (to_event("s1", moment, zone, late=late) for late in (False, True))
    assert one.uuid == other.uuid != to_event("s2", moment, zone, late=False).uuid
    assert (one.name, one.source, one.distinct_id, one.person) == ("$scheduled", "schedule", "schedule_s1", None)
    assert one.subject == "schedule_s1"  # what a run leaves open is open to the next one
    assert one.properties["local_time"] == "2026-06-15T09:00:00+02:00"
    assert (one.properties["weekday"], other.properties["late"]) == ("Monday", True)
