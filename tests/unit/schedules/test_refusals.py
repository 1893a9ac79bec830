"""Rules that are refused: at once, with what is wrong and what mends it."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.schedules.cron import CronWalls
from loops.schedules.timetable import Timing, timetable
from tests.unit.schedules.tables import at, attempt, refusal, table

ALL_HOURS = ",".join(map(str, range(24)))
ALL_MINUTES = ",".join(map(str, range(60)))


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("INVALID", "NAME=VALUE"),
        ("", "NAME=VALUE"),
        ("FREQ=DAILY;", "NAME=VALUE"),
        ("INTERVAL=1", "FREQ is missing"),
        ("FREQ=FORTNIGHTLY", "no frequency"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;BYEASTER=0", "BYEASTER"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=99999", "INTERVAL"),
        ("FREQ=DAILY;COUNT=0", "COUNT"),
        ("FREQ=DAILY;COUNT=-1", "COUNT"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "UNTIL"),
        ("FREQ=DAILY;UNTIL=soon", "UNTIL"),
        ("FREQ=DAILY;UNTIL=20271301", "UNTIL"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
        ("FREQ=DAILY;BYHOUR=", "NAME=VALUE"),
        ("FREQ=DAILY;BYMONTH=0", "BYMONTH"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY=MO"),
        ("FREQ=MONTHLY;BYDAY=6MO", "month"),
        ("FREQ=HOURLY;BYDAY=1MO", "weekday"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY"),
        ("FREQ=DAILY;BYWEEKNO=1", "BYWEEKNO"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;WKST=1", "WKST"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260101T090000", "one line"),
        ("DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY", "DTSTART"),
        ("FREQ=DAILY;DTSTART=20200101", "DTSTART"),
    ],
)
def test_case_123_a_rule_that_is_none_is_refused_with_its_fault(rule, word):
    error = refusal(rrule=rule)
    assert (error.code, error.http_status, error.path) == ("definition.schedule", 400, "rrule")
    assert error.faults[0].message.startswith("Invalid RRULE.")
    assert word in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("timing", "path"),
    [
        ({"rrule": "FREQ=MINUTELY"}, "rrule"),
        ({"rrule": "FREQ=MINUTELY;INTERVAL=59"}, "rrule"),
        ({"rrule": "FREQ=SECONDLY"}, "rrule"),
        ({"rrule": "FREQ=SECONDLY;INTERVAL=9999"}, "rrule"),
        ({"rrule": "FREQ=HOURLY;BYMINUTE=0,30"}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYMINUTE=0,59"}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYHOUR=9;BYSECOND=0,30"}, "rrule"),
        # The first two are far apart, the third is not.
        ({"rrule": "FREQ=DAILY;BYHOUR=1,9,17;BYMINUTE=0,30;BYSETPOS=1,3,4"}, "rrule"),
        ({"rrule": "FREQ=MONTHLY;BYDAY=MO;BYHOUR=9,10;BYMINUTE=0,30;BYSETPOS=1,-1,-2"}, "rrule"),
        ({"cron": "*/30 * * * *"}, "cron"),
        ({"cron": "0,59 9 * * *"}, "cron"),
    ],
)
def test_case_124_what_comes_more_than_once_an_hour_is_refused(timing, path):
    error = refusal(**timing)
    assert error.path == path
    assert error.faults[0].message.startswith("Schedules must run at most once per hour.")


def test_case_125_hourly_is_taken_and_so_is_a_choice_among_minutes_that_leaves_one_an_hour():
    assert table("FREQ=HOURLY").next_after(at("2026-06-15T13:27")) == at("2026-06-15T14:00")
    assert table("FREQ=DAILY;BYMINUTE=0,30;BYSETPOS=1").next_after(at("2026-06-15T13:27")) == at("2026-06-16T09:00")
    chosen = table("FREQ=HOURLY;BYMINUTE=10,40;BYSETPOS=-1")
    assert chosen.next_after(at("2026-06-15T13:27")) == at("2026-06-15T13:40")


NEVER = [
    {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"},
    {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"},
    {"rrule": "FREQ=HOURLY;BYMONTH=4,6;BYMONTHDAY=31"},
    {"rrule": "FREQ=DAILY;INTERVAL=7;BYDAY=TU"},
    {"rrule": "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3"},
    {"rrule": "FREQ=HOURLY;INTERVAL=2;BYHOUR=10"},
    {"rrule": "FREQ=HOURLY;BYYEARDAY=366;BYMONTH=1"},
    {"rrule": "FREQ=HOURLY;BYMINUTE=0;BYSETPOS=2"},
    {"rrule": "FREQ=YEARLY;BYMONTH=1;BYDAY=MO;BYSETPOS=300"},
    {"rrule": "FREQ=DAILY;UNTIL=20200101"},
    {"cron": "0 0 30 2 *"},
    {"cron": "0 0 31 2 *"},
    {"cron": "0 9 31 4,6 *"},
]


@pytest.mark.parametrize("timing", NEVER, ids=str)
def test_sc18_what_never_comes_is_found_out_at_once(timing):
    start = {"starts_at": "2026-01-05T09:00:00"} if "rrule" in timing else {}
    found = []
    begun = time.process_time()
    error = attempt(
        lambda: found.append(timetable(Timing("UTC", **timing, **start)).next_after(at("2026-06-15T13:27")))
    )
    if error is None:
        assert found == [None]
    else:
        assert error.faults[0].message.startswith("Schedule produces no future occurrences.")
    # A tenth of a second on a machine of its own; dateutil alone takes seconds.
    assert time.process_time() - begun < 1


EXPLOSIONS = [
    f"FREQ=YEARLY;BYHOUR={ALL_HOURS};BYMINUTE={ALL_MINUTES};BYSECOND={ALL_MINUTES};BYSETPOS=1",
    "FREQ=YEARLY;BYDAY=MO;BYSETPOS=" + ",".join(map(str, range(1, 367))),
    "FREQ=DAILY;BYHOUR=" + ",".join(["9"] * 100_000),
    "FREQ=DAILY;BYHOUR=" + "9" * 100_000,
    "FREQ=DAILY;INTERVAL=" + "9" * 100_000,
    "FREQ=DAILY;" * 10_000,
]


@pytest.mark.parametrize("rule", EXPLOSIONS, ids=lambda rule: rule[:40])
def test_rules_that_explode_are_refused_at_once(rule):
    begun = time.process_time()
    assert refusal(rrule=rule).path == "rrule"
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "line",
    ["", "x", "0 9 * *", "0 0 9 * * *", "@daily", "61 * * * *", "0 24 * * *", "0 9 * * 8", "0 9 ? * *", "0 9 * * ²",
     "0 " + "9" * 5000 + " * * *", "0 " + ",".join(["9"] * 5000) + " * * *", "0 9 1-5/0 * *"],
)  # fmt: skip
def test_a_cron_line_that_is_none_is_refused_with_the_form(line):
    error = refusal(cron=line)
    assert error.path == "cron"
    assert "five fields" in str(error) or "no cron line" in str(error)
    assert "0 9 * * 1-5" in error.hint


@given(st.text(alphabet="0123456789*,-/#LW MONTUE", max_size=30))
@settings(max_examples=200)
def test_any_text_is_a_cron_line_or_refused(text):
    noon = at("2026-06-15T12:00").replace(tzinfo=None)
    error = attempt(lambda: next(iter(CronWalls(text).since(noon)), None))
    assert error is None or error.path == "cron"


@given(st.text(alphabet="FREQ=DAILYHOUW;BSTPCN0123456789,-MOTUE:", max_size=60))
@settings(max_examples=200)
def test_any_text_is_a_rule_or_refused(text):
    error = attempt(lambda: timetable(Timing("UTC", rrule=f"FREQ=DAILY;{text}", starts_at="2026-01-05T09:00:00")))
    assert error is None or error.path == "rrule"


@pytest.mark.parametrize(
    ("zone", "meant"), [("Europe/Berln", "Europe/Berlin"), ("tokyo", "Asia/Tokyo"), ("CETT", "CET")]
)
def test_an_unknown_zone_is_refused_with_the_one_that_was_meant(zone, meant):
    assert refusal(rrule="FREQ=DAILY", timezone=zone).hint == f"did you mean {meant}?"


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe", "Europe/Berlin\0"])
def test_an_unknown_zone_is_refused(zone):
    error = refusal(rrule="FREQ=DAILY", timezone=zone)
    assert (error.path, error.faults[0].message) == ("timezone", "Invalid or unknown timezone.")
    assert "Europe/Berlin" in error.hint


@pytest.mark.parametrize(
    "start",
    [
        "",
        "tomorrow",
        "2026-07-06",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59",
        "09:00",
        "2026-07-06T09:00:00." + "0" * 99,
    ],
)
def test_a_start_that_is_no_date_with_a_time_is_refused(start):
    error = refusal(rrule="FREQ=DAILY", starts_at=start)
    assert error.path == "starts_at"
    assert "2026-07-06T09:00:00+02:00" in error.hint
