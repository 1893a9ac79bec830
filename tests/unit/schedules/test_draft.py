"""Schedules as people give them: what is taken, what is refused, what is odd."""

import pytest

from loops.errors import ScheduleError
from loops.schedules.draft import SHAPES, read_draft
from loops.schedules.recurrence import DAYS
from tests.unit.schedules.tables import DAILY, HOURLY, ONCE, WEEKDAYS, at

NOW = at("2026-06-15T13:27")
START = {"starts_at": "2026-07-06T09:00:00"}


def draft(of_loop=False, **given):
    return read_draft({**({} if "cron" in given else START), **given}, NOW, of_loop=of_loop)


def faults(of_loop=False, **given):
    with pytest.raises(ScheduleError) as caught:
        draft(of_loop, **given)
    return {fault.path: fault for fault in caught.value.faults}


def test_case_117_what_is_left_out_has_its_default():
    found = draft(rrule=DAILY)
    assert (found.timing.timezone, found.catch_up, found.variables, found.warnings) == ("UTC", "last", {}, ())
    assert found.first == at("2026-07-06T09:00")


def test_case_126_once_in_the_past_has_no_future():
    found = faults(rrule=ONCE, starts_at="2020-01-01T09:00:00Z")
    assert found["rrule"].message.startswith("Schedule produces no future occurrences.")


def test_case_127_variables_are_kept_as_given():
    given = {"greeting": "Hello", "count": 5}
    assert draft(rrule=DAILY, variables=given).variables == given


def test_case_128_names_of_zones_that_are_links_are_taken():
    assert draft(rrule=DAILY, timezone="US/Eastern").first == at("2026-07-06T13:00")


@pytest.mark.parametrize(
    "rule",
    [HOURLY, DAILY, WEEKDAYS, ONCE, *(f"FREQ=WEEKLY;INTERVAL=1;BYDAY={day}" for day in DAYS)],
)
def test_a_loop_has_the_five_rules(rule):
    assert draft(of_loop=True, rrule=rule).timing.rrule == rule


@pytest.mark.parametrize(
    "rule",
    [
        f"{DAILY};BYHOUR=9", f"{DAILY};BYMINUTE=0", "FREQ=DAILY;INTERVAL=2", "FREQ=MONTHLY;INTERVAL=1",
        f"{DAILY};UNTIL=20270101", f"RRULE:{DAILY}", "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU", "FREQ=DAILY;COUNT=2",
        "FREQ=WEEKLY;INTERVAL=1;BYDAY=<MO..SU>",
    ],
)  # fmt: skip
def test_sc15_a_loop_has_no_other_rule_and_the_five_are_named(rule):
    fault = faults(of_loop=True, rrule=rule)["rrule"]
    assert all(shape in fault.hint for shape in SHAPES.values())


def test_a_loop_has_no_cron_line_and_other_workflows_have():
    assert "five rules" in faults(of_loop=True, cron="0 9 * * *")["cron"].message
    assert draft(cron="0 9 * * 1").first == at("2026-06-22T09:00")


def test_other_workflows_have_any_rule_that_is_at_most_hourly():
    assert draft(rrule="RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17").first == at("2026-07-31T17:00")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "rrule"),
        ({"rrule": DAILY, "cron": "0 9 * * *"}, "cron"),
        ({"rrule": DAILY, "starts_at": None}, "starts_at"),
        ({"rrule": 5}, "rrule"),
        ({"rrule": DAILY, "timezone": ["UTC"]}, "timezone"),
        ({"rrule": DAILY, "timezone": "localtime"}, "timezone"),
        ({"rrule": DAILY, "timezone": "right/Europe/Berlin"}, "timezone"),
        ({"rrule": DAILY, "catch_up": "some"}, "catch_up"),
        ({"rrule": DAILY, "catch_up": ["last"]}, "catch_up"),
        ({"rrule": DAILY, "variables": []}, "variables"),
        ({"rrule": DAILY, "variables": {"a": "x" * 6000}}, "variables"),
        ({"rrule": DAILY, "variables": {"a": "\0"}}, "variables"),
        ({"rrule": DAILY, "time_zone": "UTC"}, "time_zone"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(given, path):
    assert path in faults(**given)


def test_every_fault_is_told_at_once():
    found = faults(rrule="FREQ=DAILY;BYHOUR=99", timezone="Mars/Olympus", starts_at="soon", catch_up="x", colour="red")
    assert set(found) == {"rrule", "timezone", "starts_at", "catch_up", "colour"}


def test_sc09_d18_an_offset_that_the_zone_does_not_have_is_a_warning_that_shows_both():
    found = draft(rrule=DAILY, starts_at="2026-07-06T16:00:00-06:00", timezone="America/Chicago")
    assert found.first == at("2026-07-06T22:00")
    (warning,) = found.warnings
    assert warning.path == "starts_at"
    assert "2026-07-06T16:00:00-06:00" in warning.message
    assert "2026-07-06T17:00:00-05:00" in warning.message
    fits = draft(rrule=DAILY, starts_at="2026-07-06T16:00:00-05:00", timezone="America/Chicago")
    assert fits.warnings == ()


@pytest.mark.parametrize(
    ("rule", "start", "words"),
    [
        ("FREQ=MONTHLY", "2026-07-31T09:00:00", "months without a day 31"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,30", "2026-07-01T09:00:00", "months without a day 30"),
        ("FREQ=YEARLY", "2028-02-29T09:00:00", "29 February"),
        (DAILY, "2026-07-06T09:00:00.250", "fraction of a second"),
    ],
)
def test_sc16_what_few_expect_is_a_warning(rule, start, words):
    (warning,) = draft(rrule=rule, starts_at=start).warnings
    assert words in warning.message


@pytest.mark.parametrize("rule", ["FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=MONTHLY;BYDAY=1MO", "FREQ=YEARLY;BYYEARDAY=366"])
def test_rules_that_do_not_depend_on_the_day_of_the_start_have_no_such_warning(rule):
    assert draft(rrule=rule, starts_at="2026-07-31T09:00:00").warnings == ()


def test_an_hourly_loop_that_does_not_begin_at_a_full_hour_is_a_warning():
    assert draft(of_loop=True, rrule=HOURLY).warnings == ()
    (warning,) = draft(of_loop=True, rrule=HOURLY, starts_at="2026-07-06T09:20:00").warnings
    assert "09:20" in warning.message
