"""The operators that compare dates, to the second.

A date is ISO text or seconds since 1970; one without an offset is in the project's time zone. What is no date passes
none of them. The wanted date may be relative: `-7d` is seven days before the event is matched.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias

from loops.event import JsonValue
from loops.expressions.coercion import epoch_seconds, parse_moment
from loops.expressions.moments import to_moment
from loops.filters.operator import Complaint, Holds, Operator, listed, shown
from loops.filters.project import ProjectFilters

_Rule: TypeAlias = Callable[[datetime, datetime, tzinfo, str], bool]

# In lower case every unit but the minute: `m` is the month, `M` the minute.
_RELATIVE = re.compile(r"-?(\d{1,6})([hdwmqysHDWMQY])", re.ASCII)
_SPANS = {"h": timedelta(hours=1), "M": timedelta(minutes=1), "s": timedelta(seconds=1)}
_DAYS = {"d": 1, "w": 7}
_MONTHS = {"m": 1, "q": 3, "y": 12}
_EXAMPLES = "write an ISO date such as 2026-03-20T15:30:00Z, or a relative one such as -7d, -2h or -30M (minutes)"
# Whatever lies far enough after this is late enough for every moment at which an event is matched.
_EARLIEST_NOW = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Relative:
    count: int
    unit: str

    def before(self, now: datetime, zone: tzinfo) -> datetime:
        """So long before `now`, by the clocks and the calendar of the zone. Raises OverflowError or ValueError."""
        local = now.astimezone(zone)
        if self.unit in _SPANS:
            return (local.astimezone(UTC) - self.count * _SPANS[self.unit]).astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        if self.unit in _DAYS:
            wall -= timedelta(days=self.count * _DAYS[self.unit])
        else:
            wall = _months_before(wall, self.count * _MONTHS[self.unit])
        # A wall time that the clocks skip or have twice: by way of UTC it becomes one that exists, the first of two.
        return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)


def _months_before(wall: datetime, months: int) -> datetime:
    """The same day of an earlier month, or its last day where it has fewer."""
    year, month = divmod(wall.year * 12 + wall.month - 1 - months, 12)
    first = wall.replace(year=year, month=month + 1, day=1)
    length = ((first + timedelta(days=32)).replace(day=1) - first).days
    return first.replace(day=min(wall.day, length))


def _relative(text: str) -> _Relative | None:
    found = _RELATIVE.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2] if found[2] == "M" else found[2].lower()
    return _Relative(int(found[1]), unit)


def _moment(value: JsonValue, zone: tzinfo) -> datetime | None:
    return parse_moment(value, zone) if isinstance(value, str) else to_moment(value, UTC)


def _only(wanted: JsonValue) -> JsonValue:
    return wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted


def _fault(wanted: JsonValue) -> Complaint:
    text = _only(wanted)
    if not isinstance(text, str):
        return f"must be one date as text, got {shown(wanted)}", _EXAMPLES
    relative = _relative(text)
    if relative is None:
        return None if parse_moment(text) else (f"is no date: {shown(text)}", _EXAMPLES)
    try:
        relative.before(_EARLIEST_NOW, UTC)
    except (OverflowError, ValueError):
        return f"lies before the calendar begins: {shown(text)}", "count less"
    return None


def _dated(rule: _Rule) -> Callable[[JsonValue, ProjectFilters], Holds]:
    def build(wanted: JsonValue, project: ProjectFilters) -> Holds:
        zone, text = project.time_zone, str(_only(wanted))
        relative, fixed = _relative(text), parse_moment(text, project.time_zone)
        unit = "s" if relative is None else relative.unit

        def holds(actual: JsonValue) -> bool:
            moment = None if actual is None else _moment(actual, zone)
            if moment is None:
                return False
            wish = fixed if relative is None else relative.before(project.now(), zone)
            return wish is not None and rule(moment, wish, zone, unit)

        return holds

    return build


def _resolved(wanted: JsonValue, project: ProjectFilters) -> JsonValue:
    text = _only(wanted)
    relative = _relative(text) if isinstance(text, str) else None
    if relative is None:
        return wanted
    return f"{text}, {relative.before(project.now(), project.time_zone).isoformat(timespec='seconds')}"


def _seconds(moment: datetime) -> int:
    return math.floor(epoch_seconds(moment))


def _same(moment: datetime, wish: datetime, zone: tzinfo, unit: str) -> bool:
    """Whether both are one second, or lie in the one day, hour or minute that a relative date speaks of."""
    if unit == "s":
        return _seconds(moment) == _seconds(wish)
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        return False
    if unit in _SPANS:
        size = "%Y-%m-%d %H" if unit == "h" else "%Y-%m-%d %H:%M"
        return (local.strftime(size), local.utcoffset()) == (wish.strftime(size), wish.utcoffset())
    return local.date() == wish.date()


def _operator(rule: _Rule, words: str) -> Operator:
    return Operator(_dated(rule), listed(words, words), _fault, by_project=True, resolved=_resolved)


DATES = {
    "is_date_exact": _operator(_same, "the date"),
    "is_date_before": _operator(lambda moment, wish, _zone, _unit: _seconds(moment) < _seconds(wish), "a date before"),
    "is_date_after": _operator(lambda moment, wish, _zone, _unit: _seconds(moment) > _seconds(wish), "a date after"),
}
