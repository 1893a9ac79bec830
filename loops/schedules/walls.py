"""The wall times of a rule, free of any zone: dateutil's expansion, begun near the time that is asked about.

A rule that began years ago is moved on by whole intervals first (its phase stays), so its age costs nothing; and a
search that finds nothing for HORIZON_YEARS ends there, since dateutil would go on to the year 9999.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from typing import Any, Final, Literal

from dateutil.rrule import rrule, weekdays

from loops.schedules.recurrence import Frequency, Recurrence

HORIZON_YEARS = 50

_NUMBERED: Mapping[str, Literal[0, 1, 2, 3]] = {"YEARLY": 0, "MONTHLY": 1, "WEEKLY": 2, "DAILY": 3}
_PERIODS_A_YEAR: Mapping[str, float] = {"YEARLY": 1, "MONTHLY": 12, "WEEKLY": 52.2, "DAILY": 365.25}
_NAMES: Mapping[str, str] = {
    "BYMONTH": "bymonth",
    "BYWEEKNO": "byweekno",
    "BYYEARDAY": "byyearday",
    "BYMONTHDAY": "bymonthday",
    "BYHOUR": "byhour",
    "BYMINUTE": "byminute",
    "BYSECOND": "bysecond",
    "BYSETPOS": "bysetpos",
}
_DAY_PARTS: Final = {"BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"}
_LAST_YEAR = 9000


class _Exhausted(Exception):
    """Nothing was found for as many periods as are looked at."""


class _Interval(int):
    """An interval that counts how often dateutil steps on by it, and ends a search that finds nothing: between two
    finds dateutil looks at nothing else of ours."""

    left = 0

    def __radd__(self, other: int) -> int:
        self._step()
        return other + int(self)

    def __mul__(self, other: int) -> int:
        self._step()
        return int(self) * other

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Exhausted


class RuleWalls:
    """The wall times of a rule that repeats daily or less often."""

    def __init__(self, rule: Recurrence, start: datetime) -> None:
        """`start` is the wall time of the first possible occurrence; what the rule leaves open is taken from it."""
        self._options = _options(rule, start)
        self._frequency: Frequency = rule.frequency
        self._interval = rule.interval
        if _is_of_one_month(self._options, rule.frequency, start):
            # The same a month at a time: dateutil goes through all days of a period.
            self._frequency, self._interval = "MONTHLY", rule.interval * 12
        self._start = start
        self._week_start = rule.week_start
        self._patience = int(_PERIODS_A_YEAR[self._frequency] * HORIZON_YEARS / self._interval) + 2

    def since(self, wall: datetime) -> Iterator[datetime]:
        """Those at or after a wall time, in their order."""
        interval = _Interval(self._interval)
        interval.left = self._patience
        found = rrule(
            _NUMBERED[self._frequency],
            dtstart=self._near(wall),
            interval=interval,
            wkst=self._week_start,
            **self._options,
        )
        try:
            for one in found:
                if one.year > _LAST_YEAR:
                    return
                if one >= wall:
                    interval.left = self._patience
                    yield one
        except _Exhausted:
            return

    def _near(self, wall: datetime) -> datetime:
        """The start, or the beginning of the last period of the rule that begins at or before a wall time."""
        start, interval = self._start, self._interval
        if wall <= start:
            return start
        if self._frequency == "YEARLY":
            years = (wall.year - start.year) // interval * interval
            return datetime(start.year + years, 1, 1) if years else start  # noqa: DTZ001 - wall times have no zone
        if self._frequency == "MONTHLY":
            months = (wall.year - start.year) * 12 + wall.month - start.month
            years, month = divmod(start.month - 1 + months // interval * interval, 12)
            return datetime(start.year + years, month + 1, 1) if months >= interval else start  # noqa: DTZ001
        first, length = self._period(start)
        periods = (wall - first) // timedelta(days=length)
        return first + timedelta(days=periods * length) if periods else start

    def _period(self, start: datetime) -> tuple[datetime, int]:
        """The midnight that the start's day or week begins with, and how many days an interval has."""
        midnight = datetime.combine(start.date(), time())
        if self._frequency == "DAILY":
            return midnight, self._interval
        return midnight - timedelta(days=(start.weekday() - self._week_start) % 7), self._interval * 7


def _is_of_one_month(options: Mapping[str, Any], frequency: Frequency, start: datetime) -> bool:
    """Whether a yearly rule names days of the month that it starts in, and no other."""
    of_days = options.keys() & {"byweekday", "byweekno", "byyearday", "bysetpos"}
    return frequency == "YEARLY" and options.get("bymonth") == (start.month,) and not of_days


def _options(rule: Recurrence, start: datetime) -> Mapping[str, Any]:
    """The rule as dateutil takes it, with nothing left for it to take from a start that is moved."""
    options: dict[str, Any] = {_NAMES[name]: numbers for name, numbers in rule.by.items()}
    if rule.days:
        options["byweekday"] = tuple(
            weekdays[day] if which is None else weekdays[day](which) for day, which in rule.days
        )
    elif rule.frequency == "WEEKLY" or ("BYWEEKNO" in rule.by and not rule.by.keys() & {"BYYEARDAY", "BYMONTHDAY"}):
        options["byweekday"] = (start.weekday(),)
    elif rule.frequency in ("YEARLY", "MONTHLY") and not rule.by.keys() & _DAY_PARTS:
        options["bymonthday"] = (start.day,)
        if rule.frequency == "YEARLY":
            options.setdefault("bymonth", (start.month,))
    for name, value in (("byhour", start.hour), ("byminute", start.minute), ("bysecond", start.second)):
        options.setdefault(name, (value,))
    return options
