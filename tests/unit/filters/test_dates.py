from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters import ProjectFilters
from tests.unit.filters.events import event, holds, one

BERLIN = ZoneInfo("Europe/Berlin")
zones = st.sampled_from([UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")])
instants = st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # made aware


def at(now: str, zone: Any = UTC) -> ProjectFilters:
    moment = datetime.fromisoformat(now)
    return ProjectFilters(time_zone=zone, now=lambda: moment)


@pytest.mark.parametrize(
    ("operator", "wanted", "actual", "expected"),
    [
        ("is_date_after", "2026-01-01", "2026-01-01T00:00:01Z", True),
        ("is_date_after", "2026-01-01", "2026-01-01", False),
        ("is_date_after", "2026-01-01", "2026-01-01T00:00:00.9Z", False),
        ("is_date_before", "2026-01-01T12:00:00+02:00", "2026-01-01T09:59:59Z", True),
        ("is_date_before", "2026-01-01", "2026-01-01T00:00:00Z", False),
        ("is_date_exact", "2026-01-01T12:00:00+02:00", "2026-01-01T10:00:00.5Z", True),
        ("is_date_exact", ["2026-01-01"], "2026-01-01 00:00:00", True),
        ("is_date_exact", "2026-01-01", "2026-01-01T00:00:01", False),
        ("is_date_exact", "2026-01-01T00:00:00Z", 1767225600, True),
        ("is_date_after", "2026-01-01", "no date", False),
        ("is_date_before", "2026-01-01", "no date", False),
        ("is_date_before", "2026-01-01", None, False),
        ("is_date_before", "2026-01-01", True, False),
        ("is_date_before", "2026-01-01", ["2025-01-01"], False),
        ("is_date_before", "2026-01-01", 10**30, False),
    ],
)
def test_dates_compare_as_instants_to_the_second(operator: str, wanted: Any, actual: Any, expected: bool) -> None:
    assert holds(operator, wanted, actual) is expected


def test_a_date_without_an_offset_is_in_the_projects_time_zone() -> None:
    project = at("2026-06-01T00:00:00+00:00", BERLIN)
    assert holds("is_date_exact", "2026-01-01", "2025-12-31T23:00:00Z", project=project)
    assert holds("is_date_exact", "2025-12-31T23:00:00Z", "2026-01-01 00:00:00", project=project)
    assert holds("gt", "2026-01-01", "2025-12-31T23:00:01Z", project=project)


@pytest.mark.parametrize(
    ("wanted", "resolved"),
    [
        ("-7d", "2026-03-22T12:00:00+01:00"),
        ("7d", "2026-03-22T12:00:00+01:00"),
        ("-1D", "2026-03-28T12:00:00+01:00"),
        ("-2h", "2026-03-29T10:00:00+02:00"),
        ("-12h", "2026-03-28T23:00:00+01:00"),
        ("-30M", "2026-03-29T11:30:00+02:00"),
        ("-90s", "2026-03-29T11:58:30+02:00"),
        ("-1m", "2026-02-28T12:00:00+01:00"),
        ("-1q", "2025-12-29T12:00:00+01:00"),
        ("-1y", "2025-03-29T12:00:00+01:00"),
        ("-2w", "2026-03-15T12:00:00+01:00"),
        ("0d", "2026-03-29T12:00:00+02:00"),
    ],
)
def test_a_relative_date_is_counted_by_the_calendar_of_the_projects_zone_d8(wanted: str, resolved: str) -> None:
    """The clocks go forward in Berlin that morning."""
    project = at("2026-03-29T12:00:00+02:00", BERLIN)
    moment = datetime.fromisoformat(resolved)
    for operator, shift in {"is_date_after": 1, "is_date_before": -1}.items():
        assert not holds(operator, wanted, moment.isoformat(), project=project)
        assert holds(operator, wanted, (moment + timedelta(seconds=shift)).isoformat(), project=project)
    (compared,) = one("p", "is_date_after", wanted, project).explain(event({"p": "2020-01-01"}))
    assert compared.expected == f"{wanted}, {resolved}"
    assert compared.words() == f'p is "2020-01-01", wanted a date after "{wanted}, {resolved}"'


def test_a_relative_date_moves_with_the_clock_d8() -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    compiled = one("p", "is_date_after", "-7d", ProjectFilters(now=lambda: now[0]))
    due = event({"p": "2026-02-25T00:00:00Z"})
    assert compiled.matches(due)
    now[0] += timedelta(days=7)
    assert not compiled.matches(due)


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        ("-1d", ["2026-03-27T23:00:00Z", "2026-03-28T22:59:59Z"], ["2026-03-27T22:59:59Z", "2026-03-28T23:00:00Z"]),
        ("-1m", ["2026-02-28T00:00:00"], ["2026-02-27T23:59:59", "2026-03-01"]),
        ("-1h", ["2026-03-29T09:00:00Z", "2026-03-29T09:59:59Z"], ["2026-03-29T08:59:59Z", "2026-03-29T10:00:00Z"]),
        ("-5M", ["2026-03-29T10:25:00Z", "2026-03-29T10:25:59Z"], ["2026-03-29T10:24:59Z", "2026-03-29T10:26:00Z"]),
        ("-5s", ["2026-03-29T10:29:55.5Z"], ["2026-03-29T10:29:54Z", "2026-03-29T10:29:56Z"]),
    ],
)
def test_is_date_exact_with_a_relative_date_is_that_whole_day_hour_or_minute(
    wanted: str, inside: list[str], outside: list[str]
) -> None:
    project = at("2026-03-29T12:30:00+02:00", BERLIN)
    assert [holds("is_date_exact", wanted, moment, project=project) for moment in inside] == [True] * len(inside)
    assert [holds("is_date_exact", wanted, moment, project=project) for moment in outside] == [False] * len(outside)


def test_a_wall_time_that_the_clocks_skip_is_put_off_by_the_gap() -> None:
    project = at("2026-03-30T02:30:00+02:00", BERLIN)
    (compared,) = one("p", "is_date_after", "-1d", project).explain(event({"p": "2020-01-01"}))
    assert compared.expected == "-1d, 2026-03-29T03:30:00+02:00"


@given(now=instants, zone=zones, unit=st.sampled_from("hdwmqysM"), count=st.integers(0, 300), other=instants)
def test_a_moment_is_before_or_after_a_relative_date_or_in_its_second(
    now: datetime, zone: Any, unit: str, count: int, other: datetime
) -> None:
    project = ProjectFilters(time_zone=zone, now=lambda: now)
    text = other.isoformat()
    before, after = (holds(f"is_date_{word}", f"-{count}{unit}", text, project=project) for word in ("before", "after"))
    assert not (before and after)
    if not before and not after:
        assert holds("is_date_exact", f"-{count}{unit}", text, project=project)
    longer = holds("is_date_before", f"-{count + 1}{unit}", text, project=project)
    assert before or not longer


@pytest.mark.parametrize(
    "wanted",
    ["", "yesterday", "-7x", "7", 7, ["2026-01-01", "2026-01-02"], None, "-7dd", "2026-13-01", "-9999y", "-99999q"],
)
def test_what_is_no_date_is_refused_with_examples(wanted: Any) -> None:
    with pytest.raises(FilterError) as caught:
        one("p", "is_date_before", wanted)
    (fault,) = caught.value.faults
    assert fault.path == "filters.properties[0].value"
    assert "-7d" in fault.hint or "count less" in fault.hint
