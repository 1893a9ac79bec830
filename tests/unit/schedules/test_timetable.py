"""When schedules occur: wall time in a zone, clock changes, old starts, ends."""

import itertools
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loops.schedules.hours import HourSteps
from loops.schedules.recurrence import read_rrule
from loops.schedules.timetable import Timing, timetable
from tests.unit.schedules.tables import DAILY, HOURLY, ONCE, WEEKDAYS, WEEKLY, at, cron, local, table, upcoming

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
HOUR = timedelta(hours=1)


def test_sc01_a_time_that_the_clock_skips_fires_once_later_by_the_gap():
    found = table(DAILY, "2027-03-01T02:30:00", NEW_YORK)
    assert upcoming(found, "2027-03-13T12:00", 2) == ["2027-03-14 07:30", "2027-03-15 06:30"]
    assert local(found, "2027-03-13T12:00", 2) == ["2027-03-14 03:30-0400", "2027-03-15 02:30-0400"]


@pytest.mark.parametrize(
    ("rule", "zone"),
    [
        ("FREQ=MINUTELY;INTERVAL=61;BYMINUTE=0;BYYEARDAY=366;BYHOUR=3", "Africa/Casablanca"),
        ("FREQ=HOURLY;INTERVAL=10000;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3", BERLIN),
        ("FREQ=HOURLY;INTERVAL=10000;BYMONTH=12;BYMONTHDAY=1;BYDAY=TU;BYHOUR=6", BERLIN),
    ],
)
def test_sc18_rare_days_that_few_steps_fit_are_looked_at_for_fifty_years_and_no_longer(rule, zone):
    steps = HourSteps(read_rrule(rule), at("2000-01-01T03:00"), ZoneInfo(zone))
    assert all(one.year <= 2076 for one in steps.since(at("2026-12-01T00:00")))


def test_sc01_a_time_that_the_clock_shows_twice_fires_once_at_the_first():
    found = table(DAILY, "2026-10-01T01:30:00", NEW_YORK)
    assert upcoming(found, "2026-10-31T12:00", 2) == ["2026-11-01 05:30", "2026-11-02 06:30"]
    # Asked between the two, at the second, and after it: it is over.
    for asked in ("2026-11-01T05:30", "2026-11-01T06:29", "2026-11-01T06:30", "2026-11-01T06:31"):
        assert upcoming(found, asked, 1) == ["2026-11-02 06:30"]


@pytest.mark.parametrize(
    ("zone", "start", "after", "instants"),
    [
        ("Europe/Prague", "2026-03-20T09:00:00", "2026-03-27T12:00", ["2026-03-28 08:00", "2026-03-29 07:00"]),
        (BERLIN, "2026-03-20T02:30:00", "2026-03-28T12:00", ["2026-03-29 01:30", "2026-03-30 00:30"]),
        (BERLIN, "2026-10-20T02:30:00", "2026-10-24T12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ],
)
def test_d16_a_daily_time_keeps_its_wall_time_over_clock_changes(zone, start, after, instants):
    assert upcoming(table(DAILY, start, zone), after, 2) == instants


@pytest.mark.parametrize("change", ["2026-03-29T01:00", "2026-10-25T01:00"])
def test_sc02_hourly_is_every_sixty_minutes_over_clock_changes(change):
    found = table(HOURLY, "2026-01-01T00:00:00", BERLIN)
    begin = at(change) - timedelta(days=1)
    instants = [one.at for one in itertools.islice(found.after(begin), 48)]
    assert instants == [begin + number * HOUR for number in range(1, 49)]


def test_d16_hours_named_one_by_one_are_wall_times_and_two_that_fall_together_fire_once():
    found = table("FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=30", "2026-03-01T00:30:00", BERLIN)
    # 02:30 is moved on to 03:30, where another occurrence is already.
    assert upcoming(found, "2026-03-28T12:00", 3) == ["2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 23:30"]


def test_d16_cron_with_a_fixed_hour_is_wall_time():
    found = cron("30 2 * * *", BERLIN)
    assert upcoming(found, "2026-03-28T12:00", 2) == ["2026-03-29 01:30", "2026-03-30 00:30"]
    assert upcoming(found, "2026-10-24T12:00", 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]


@pytest.mark.parametrize("change", ["2026-03-29T01:00", "2026-10-25T01:00"])
def test_d16_cron_with_a_star_for_the_hour_is_every_sixty_minutes(change):
    begin = at(change) - timedelta(hours=6)
    instants = [one.at for one in itertools.islice(cron("0 * * * *", BERLIN).after(begin), 12)]
    assert instants == [begin + number * HOUR for number in range(1, 13)]


@pytest.mark.parametrize("hours", ["*/2", "0-22/2"])
def test_d16_cron_with_steps_of_hours_fires_whenever_the_clock_shows_one(hours):
    found = cron(f"0 {hours} * * *", BERLIN)
    # 02:00 is skipped in spring, and comes twice in autumn.
    assert local(found, "2026-03-28T23:00", 2) == ["2026-03-29 04:00+0200", "2026-03-29 06:00+0200"]
    assert local(found, "2026-10-24T22:30", 3) == [
        "2026-10-25 02:00+0200", "2026-10-25 02:00+0100", "2026-10-25 04:00+0100",
    ]  # fmt: skip


def test_sc07_a_start_a_year_ago_gives_the_same_local_time_for_a_year():
    found = table(DAILY, "2025-06-15T09:00:00", NEW_YORK)
    shown = {one.at.astimezone(found.zone).time() for one in itertools.islice(found.after(at("2026-06-15T12:00")), 400)}
    assert {f"{time:%H:%M}" for time in shown} == {"09:00"}


def test_sc09_a_start_in_utc_is_that_instant_and_its_wall_time_in_the_zone():
    found = table(DAILY, "2026-07-06T16:00:00Z", "America/Chicago")
    assert upcoming(found, "2026-07-01T00:00", 1) == ["2026-07-06 16:00"]
    assert local(found, "2026-12-01T12:00", 1) == ["2026-12-01 11:00-0600"]


@pytest.mark.parametrize("text", ["2026-07-06T16:00:00-05:00", "2026-07-06T16:00:00", "2026-07-06T17:00:00-04:00"])
def test_sc09_d18_with_an_offset_the_instant_counts_and_without_one_the_wall_time(text):
    found = table(DAILY, text, "America/Chicago")
    assert upcoming(found, "2026-07-01T00:00", 1) == ["2026-07-06 21:00"]


def test_sc10_what_lies_ahead_today_is_told():
    found = table(DAILY, "2026-07-01T09:00:00", "America/Toronto")
    assert upcoming(found, "2026-07-06T12:00", 1) == ["2026-07-06 13:00"]


def test_sc13_a_start_on_another_weekday_begins_on_the_next_that_fits():
    found = table(WEEKLY, "2026-07-01T09:00:00")
    assert upcoming(found, "2026-06-01T00:00", 2) == ["2026-07-06 09:00", "2026-07-13 09:00"]
    weekend = table(WEEKDAYS, "2026-07-04T09:00:00")
    assert upcoming(weekend, "2026-06-01T00:00", 1) == ["2026-07-06 09:00"]


def test_sc16_months_without_the_day_are_left_out():
    found = table("FREQ=MONTHLY", "2026-01-31T09:00:00")
    assert upcoming(found, "2026-01-01T00:00", 4) == [
        "2026-01-31 09:00", "2026-03-31 09:00", "2026-05-31 09:00", "2026-07-31 09:00",
    ]  # fmt: skip


def test_sc17_cron_on_29_february_asked_at_its_own_moment_tells_the_next_leap_year():
    assert upcoming(cron("0 9 29 2 *"), "2028-02-29T09:00", 1) == ["2032-02-29 09:00"]


@pytest.mark.parametrize(("weeks", "start"), [(2, "2026-12-07"), (3, "2026-12-14"), (5, "2024-11-25")])
def test_sc19_every_so_many_weeks_keeps_its_spacing_over_the_new_year(weeks, start):
    found = table(f"FREQ=WEEKLY;INTERVAL={weeks};BYDAY=MO", f"{start}T09:00:00")
    instants = [one.at for one in itertools.islice(found.after(at("2026-12-20T00:00")), 8)]
    assert {later - earlier for earlier, later in itertools.pairwise(instants)} == {timedelta(weeks=weeks)}
    assert all((one - at(f"{start}T09:00")) % timedelta(weeks=weeks) == timedelta() for one in instants)


def test_once_is_exactly_the_start_even_where_that_is_the_second_of_its_wall_time():
    assert upcoming(table(ONCE, "2026-07-06T16:00:00Z", BERLIN), "2026-01-01T00:00") == ["2026-07-06 16:00"]
    second = table(ONCE, "2026-10-25T02:30:00+01:00", BERLIN)
    assert upcoming(second, "2026-01-01T00:00") == ["2026-10-25 01:30"]


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        ("FREQ=DAILY;COUNT=3", "2026-01-07 09:00"),
        ("FREQ=HOURLY;COUNT=3", "2026-01-05 11:00"),
        ("FREQ=HOURLY;INTERVAL=5;BYHOUR=9,14;COUNT=3", "2026-01-10 09:00"),
        ("FREQ=DAILY;UNTIL=20260107", "2026-01-07 09:00"),
        ("FREQ=DAILY;UNTIL=20260107T090000", "2026-01-07 09:00"),
        ("FREQ=DAILY;UNTIL=20260107T085959", "2026-01-06 09:00"),
        ("FREQ=DAILY;UNTIL=20260107T090000Z", "2026-01-07 09:00"),
        ("FREQ=HOURLY;UNTIL=20260105T113000Z", "2026-01-05 11:00"),
    ],
)
def test_count_and_until_end_a_schedule(rule, last):
    found = table(rule)
    assert upcoming(found, "2026-01-01T00:00", 100)[-1] == last
    assert found.next_after(at(last)) is None


def test_count_is_counted_from_the_start_whenever_it_is_asked():
    found = table("FREQ=DAILY;INTERVAL=2;COUNT=400", "2026-01-05T09:00:00")
    everything = upcoming(found, "2026-01-01T00:00", 1000)
    assert len(everything) == 400
    assert upcoming(found, "2028-03-01T00:00", 10) == [one for one in everything if one > "2028-03-01"][:10]


def test_a_start_of_long_ago_gives_what_a_start_of_today_gives():
    for rule in (HOURLY, DAILY, WEEKDAYS, WEEKLY, "FREQ=MONTHLY;BYDAY=1MO,-1FR", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29"):
        old, young = table(rule, "1970-01-05T09:00:00", BERLIN), table(rule, "2026-01-05T09:00:00", BERLIN)
        assert upcoming(old, "2026-06-15T13:27", 5) == upcoming(young, "2026-06-15T13:27", 5)


def test_a_yearly_rule_of_the_month_that_it_starts_in_keeps_its_interval():
    found = table("FREQ=YEARLY;INTERVAL=3", "2019-05-20T09:00:00")
    assert upcoming(found, "2026-06-01T00:00", 2) == ["2028-05-20 09:00", "2031-05-20 09:00"]


def test_a_week_without_a_weekday_is_that_of_the_start():
    found = table("FREQ=YEARLY;BYWEEKNO=20", "2026-01-05T09:00:00")
    assert upcoming(found, "2026-01-01T00:00", 2) == ["2026-05-11 09:00", "2027-05-17 09:00"]


def test_hours_may_be_limited_to_days_and_to_hours_of_the_zone():
    found = table("FREQ=HOURLY;BYDAY=MO,TU;BYHOUR=9,10", "2026-01-01T00:15:00", NEW_YORK)
    assert local(found, "2026-03-04T00:00", 5) == [
        "2026-03-09 09:15-0400", "2026-03-09 10:15-0400",
        "2026-03-10 09:15-0400", "2026-03-10 10:15-0400", "2026-03-16 09:15-0400",
    ]  # fmt: skip


def test_minutes_of_an_hour_and_more_are_elapsed_time():
    found = table("FREQ=MINUTELY;INTERVAL=90", "2026-03-28T23:30:00", BERLIN)
    assert upcoming(found, "2026-03-28T22:00", 4) == [
        "2026-03-28 22:30", "2026-03-29 00:00", "2026-03-29 01:30", "2026-03-29 03:00",
    ]  # fmt: skip


def test_a_day_that_a_zone_left_out_moves_on_to_the_next_once():
    found = table(DAILY, "2011-12-01T09:00:00", "Pacific/Apia")
    shown = local(found, "2011-12-28T23:00", 3)
    assert shown == ["2011-12-29 09:00-1000", "2011-12-31 09:00+1400", "2012-01-01 09:00+1400"]


def test_a_cron_line_may_have_a_start():
    found = cron("0 9 * * *", BERLIN, "2026-07-06T09:00:00")
    assert upcoming(found, "2026-01-01T00:00", 1) == ["2026-07-06 07:00"]
    assert upcoming(cron("0 9 * * 1-5", BERLIN), "2026-07-03T07:00", 1) == ["2026-07-06 07:00"]


def test_the_latest_of_a_span_are_found_from_its_end():
    found = table(HOURLY, "2020-01-01T00:00:00")
    latest = found.latest(at("2021-01-01T00:00"), at("2026-06-15T10:30"), 3)
    assert latest == [at("2026-06-15T08:00"), at("2026-06-15T09:00"), at("2026-06-15T10:00")]
    assert found.latest(at("2026-06-15T08:00"), at("2026-06-15T10:30"), 3) == latest[1:]
    yearly = table("FREQ=YEARLY", "2020-01-01T00:00:00")
    assert yearly.latest(at("2020-01-01T00:00"), at("2026-06-15T10:30"), 2) == [
        at("2025-01-01T00:00"), at("2026-01-01T00:00"),
    ]  # fmt: skip


RULES = st.builds(
    lambda frequency, interval, parts: ";".join([f"FREQ={frequency}", f"INTERVAL={interval}", *parts]),
    st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]),
    st.integers(1, 5),
    st.lists(
        st.sampled_from(
            ["BYMONTH=1,3,6,12", "BYDAY=MO,WE,SU", "BYHOUR=0,9,17", "BYMONTHDAY=1,15,-1", "WKST=SU", "BYMINUTE=20"]
        ),
        unique_by=lambda part: part.partition("=")[0],
        max_size=3,
    ),
)


@given(RULES, st.integers(0, 730 * 86400), st.integers(0, 1500))
@settings(max_examples=60)
def test_in_utc_a_rule_gives_what_dateutil_gives_from_its_start(rule, start, days):
    assume(not ("FREQ=WEEKLY" in rule and "BYMONTHDAY" in rule))
    start = at("2022-01-01T00:00:00").replace(tzinfo=None) + timedelta(seconds=start)
    asked = start + timedelta(days=days, hours=5)
    plain = rule if "WKST" in rule else f"{rule};WKST=MO"
    try:
        expected = list(itertools.islice(rrulestr(plain, dtstart=start).xafter(asked), 4))
    except ValueError:  # the hours that it names are never reached
        expected = []
    found = timetable(Timing("UTC", rrule=rule, starts_at=start.isoformat()))
    given_back = [one.at.replace(tzinfo=None) for one in itertools.islice(found.after(asked.replace(tzinfo=UTC)), 4)]
    assert given_back == [one for one in expected if one.year < asked.year + 45][: len(given_back)]
    assert len(given_back) == 4 or not expected


@given(st.lists(st.integers(0, 40 * 24 * 60), min_size=2, max_size=12), st.sampled_from([HOURLY, DAILY, ONCE, WEEKLY]))
def test_the_next_one_is_the_same_in_whatever_order_it_is_asked_for(minutes, rule):
    found = table(rule, "2026-01-05T09:00:00", BERLIN)
    for minute in minutes:
        moment = at("2025-12-30T00:00") + timedelta(minutes=minute)
        first = next(found.after(moment), None)
        assert found.next_after(moment) == (None if first is None else first.at)
