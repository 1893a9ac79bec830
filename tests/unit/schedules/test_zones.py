"""Every zone there is: nothing lost and nothing doubled where clocks change, and the preview tells what fires."""

import itertools
import zoneinfo
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from loops.schedules.preview import preview
from loops.schedules.timetable import Timetable
from tests.unit.schedules.tables import DAILY, HOURLY, WEEKDAYS, cron, table

ZONES = sorted(zoneinfo.available_timezones() - {"localtime", "Factory"})
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BY_HALF_AN_HOUR = {"Australia/Lord_Howe", "Australia/LHI"}
BY_TWO_HOURS = {"Antarctica/Troll"}
NO_CHANGE = datetime(2026, 6, 15, tzinfo=UTC)


def changes(zone: str, year: int = 2026) -> Iterator[datetime]:
    """The midnights (UTC) before each day of a year on which a zone's clock is set."""
    info = ZoneInfo(zone)
    days = [datetime(year, 1, 1, tzinfo=UTC) + number * DAY for number in range(366)]
    for (day, offset), (_, after) in itertools.pairwise((day, day.astimezone(info).utcoffset()) for day in days):
        if offset != after:
            yield day


@cache
def changes_by_zone() -> dict[str, list[datetime]]:
    return {zone: list(changes(zone)) for zone in ZONES}


@cache
def one_of_each() -> dict[str, list[datetime]]:
    """The same without the zones whose clocks show the same all year as those of another one."""
    found: dict[tuple[object, ...], str] = {}
    for zone, days in changes_by_zone().items():
        offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in (NO_CHANGE, *days)]
        found.setdefault((*offsets, *(minute_of_change(zone, day) for day in days)), zone)
    return {zone: changes_by_zone()[zone] for zone in found.values()}


def minute_of_change(zone: str, day: datetime) -> datetime:
    info = ZoneInfo(zone)

    def is_set(minute: int) -> bool:
        return (day + timedelta(minutes=minute)).astimezone(info).utcoffset() != day.astimezone(info).utcoffset()

    return day + timedelta(minutes=bisect_left(range(1440), True, key=is_set))


def instants(found: Timetable, begin: datetime, end: datetime) -> list[datetime]:
    return [one.at for one in itertools.takewhile(lambda one: one.at < end, found.after(begin))]


def gaps(found: list[datetime]) -> set[timedelta]:
    return {later - earlier for earlier, later in itertools.pairwise(found)}


def test_the_system_or_the_package_has_the_zones_of_the_world():
    assert len(ZONES) > 400
    assert {"Europe/Berlin", "America/New_York", "US/Eastern", "Asia/Kathmandu"} <= set(ZONES)
    assert sum(map(len, changes_by_zone().values())) > 200
    assert len(one_of_each()) > 50


def test_a_daily_time_recurs_after_23_to_25_hours_in_every_zone():
    odd: dict[str, set[timedelta]] = {}
    for zone, days in one_of_each().items():
        for start in ("00:00", "02:30", "09:00"):
            found = table(DAILY, f"2026-01-01T{start}:00", zone)
            for day in days or [NO_CHANGE]:
                fired = instants(found, day - 2 * DAY, day + 3 * DAY)
                assert len(fired) in (4, 5, 6)
                if wrong := gaps(fired) - {23 * HOUR, 24 * HOUR, 25 * HOUR}:
                    odd[zone] = odd.get(zone, set()) | wrong
    assert set(odd) <= BY_HALF_AN_HOUR | BY_TWO_HOURS
    for zone, wrong in odd.items():
        change = HOUR / 2 if zone in BY_HALF_AN_HOUR else 2 * HOUR
        assert wrong == {DAY - change, DAY + change}


def test_hourly_is_exactly_sixty_minutes_in_every_zone():
    for zone, days in changes_by_zone().items():
        found = table(HOURLY, "2026-01-01T00:10:00", zone)
        for day in days or [NO_CHANGE]:
            fired = instants(found, day - 2 * HOUR - HOUR / 2, day + DAY - HOUR / 2)
            assert (gaps(fired), len(fired)) == ({HOUR}, 26)


def test_hourly_by_cron_is_sixty_minutes_but_where_clocks_change_by_half_an_hour():
    odd = set()
    for zone, days in one_of_each().items():
        found = cron("0 * * * *", zone)
        for day in days:
            fired = instants(found, day, day + DAY)
            assert sorted(set(fired)) == fired
            if gaps(fired) != {HOUR}:
                assert gaps(fired) <= {HOUR, 1.5 * HOUR}
                odd.add(zone)
    assert odd <= BY_HALF_AN_HOUR


def test_changes_of_the_past_double_nothing_and_reorder_nothing():
    """Zones that left out or repeated hours and whole days: by 24 hours, by 2, by minutes and seconds."""
    past = {
        "Pacific/Apia": 2011, "Pacific/Kwajalein": 1993, "Asia/Pyongyang": 2018, "Europe/Moscow": 2011,
        "America/Caracas": 2007, "Africa/Monrovia": 1972, "Antarctica/Casey": 2010, "Asia/Gaza": 2011,
    }  # fmt: skip
    for zone, year in past.items():
        for rule in (DAILY, "FREQ=DAILY;BYHOUR=0,1,2,3,22,23;BYMINUTE=30"):
            found = table(rule, "1970-01-02T02:30:00", zone)
            for day in changes(zone, year):
                fired = instants(found, day - 2 * DAY, day + 3 * DAY)
                assert len(fired) >= 4
                assert fired == sorted(set(fired))


@given(
    st.deferred(lambda: st.sampled_from([zone for zone, days in changes_by_zone().items() if days])),
    st.sampled_from([DAILY, HOURLY, WEEKDAYS, "FREQ=DAILY;BYHOUR=0,1,2,3,4", "cron 30 */3 * * *", "cron 30 2 * * 1-5"]),
    st.times(),
    st.data(),
)
@settings(max_examples=60)
def test_the_preview_tells_what_fires(zone, rule, start, data):
    day = data.draw(st.sampled_from(changes_by_zone()[zone]))
    begin = day - DAY + timedelta(minutes=data.draw(st.integers(0, 2880)))
    line = rule.removeprefix("cron ")
    found = cron(line, zone) if line != rule else table(rule, f"2026-01-01T{start:%H:%M}:00", zone)
    told = preview(found, begin, 20)
    # As the clock fires them: each is asked for after the one before.
    fired, moment = [], begin
    for _ in told:
        moment = found.next_after(moment)
        fired.append(moment)
    assert [one.at for one in told] == fired
    assert all(one.local.tzinfo is found.zone and one.local.astimezone(UTC) == one.at for one in told)
