"""Rules that count hours or minutes: in elapsed time, so that no hour is lost or doubled where clocks change (D16)."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import MAXYEAR, datetime, time, timedelta, tzinfo

from loops.schedules.recurrence import Recurrence
from loops.schedules.refusal import invalid, never, too_often
from loops.schedules.wall_clock import first_instant, wall_of
from loops.schedules.walls import HORIZON_YEARS, RuleWalls

COUNTED = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}
"""The frequencies of rules that count elapsed time, and the unit of their intervals."""

_DAY = timedelta(days=1)
_DAY_PARTS = ("BYMONTH", "BYMONTHDAY", "BYYEARDAY")
_PATIENCE = 10_000
"""How many steps are looked at that no hour or day of the rule has."""


class HourSteps:
    """Every so many minutes from the start; `BY…` parts leave out those whose wall time does not fit."""

    def __init__(self, rule: Recurrence, start: datetime, zone: tzinfo) -> None:
        """`start` is an instant. Raises ScheduleError for more than one moment of an hour."""
        self._step = COUNTED[rule.frequency] * rule.interval
        self._zone = zone
        self._start = start
        self._base = start + _first_of(rule, wall_of(start, zone))
        self._hours = frozenset(rule.by.get("BYHOUR", ()))
        self._minutes = frozenset(rule.by.get("BYMINUTE", ())) if rule.frequency == "MINUTELY" else frozenset()
        self._days = _days(rule, wall_of(start, zone))

    def since(self, instant: datetime) -> Iterator[datetime]:
        """Those at or after an instant, in their order."""
        begin = max(instant, self._start)
        if self._days is None:
            yield from self._fitting(self._count_to(begin), None)
            return
        left = _PATIENCE
        midnight = datetime.combine(wall_of(begin, self._zone).date(), time())
        # Few steps fit a rare day, so days are not looked at without end either: they cost the calendar, not the rule.
        horizon = datetime(min(midnight.year + HORIZON_YEARS, MAXYEAR), 12, 31)  # noqa: DTZ001 - wall time, as days are
        for day in itertools.takewhile(lambda one: one <= horizon, self._days.since(midnight)):
            lower = max(begin, first_instant(day, self._zone))
            for one in self._fitting(self._count_to(lower), day):
                left = _PATIENCE
                yield one
            left -= 24
            if left < 0:
                return

    def _count_to(self, instant: datetime) -> int:
        return max(0, -((self._base - instant) // self._step))

    def _fitting(self, count: int, day: datetime | None) -> Iterator[datetime]:
        """The steps from a number on that fit; with a day, to the end of it."""
        left = _PATIENCE
        for number in itertools.count(count):
            one = self._base + number * self._step
            wall = wall_of(one, self._zone)
            if day is not None and wall.date() != day.date():
                if wall > day:
                    return
                continue
            if (not self._hours or wall.hour in self._hours) and (not self._minutes or wall.minute in self._minutes):
                left = _PATIENCE
                yield one
            left -= 1
            if left < 0:
                return


def _first_of(rule: Recurrence, wall: datetime) -> timedelta:
    """How far from the start the minute and second lie that the rule names of each hour."""
    names = ("BYMINUTE", "BYSECOND") if rule.frequency == "HOURLY" else ("BYSECOND",)
    minutes = rule.by.get("BYMINUTE", (wall.minute,)) if rule.frequency == "HOURLY" else (wall.minute,)
    seconds = rule.by.get("BYSECOND", (wall.second,))
    moments = sorted(timedelta(minutes=minute, seconds=second) for minute in minutes for second in seconds)
    positions = rule.by.get("BYSETPOS")
    if positions:
        indexes = {place - 1 if place > 0 else len(moments) + place for place in positions}
        moments = [moment for index, moment in enumerate(moments) if index in indexes]
    if not moments:
        raise never("rrule", "BYSETPOS chooses none of the moments of an hour.")
    if len(moments) > 1:
        raise too_often("rrule", f"{' and '.join(names)} name {len(moments)} moments of an hour.", "one of each")
    return moments[0] - timedelta(minutes=wall.minute, seconds=wall.second)


def _days(rule: Recurrence, start: datetime) -> RuleWalls | None:
    """The days that a rule is limited to, as their midnights; None where it is limited to none."""
    if any(which is not None for _, which in rule.days):
        raise invalid("A number before a weekday needs FREQ=MONTHLY or FREQ=YEARLY.", "as BYDAY=MO")
    limits = {name: rule.by[name] for name in _DAY_PARTS if name in rule.by}
    if not limits and not rule.days:
        return None
    midnight = datetime.combine(start.date(), time())
    return RuleWalls(replace(rule, frequency="DAILY", interval=1, count=None, until=None, by=limits), midnight)
