"""Spans of time, and moments that they lead to. Days and longer are counted by the zone's own clock, so that noon stays
noon over a change of the clocks; hours and shorter are counted in time that passes."""

import calendar
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from loops.expressions.faults import fault
from loops.expressions.moments import to_moment
from loops.expressions.notation import HogValue, Number

_INTERVAL = "__hogInterval__"
_EXACT: Mapping[str, int] = MappingProxyType({"second": 1, "minute": 60, "hour": 3_600})
_DAYS: Mapping[str, int] = MappingProxyType({"day": 1, "week": 7})
_MONTHS: Mapping[str, int] = MappingProxyType({"month": 1, "year": 12})
UNITS = (*_EXACT, *_DAYS, *_MONTHS)
_OUT_OF_RANGE = "the date would be before the year 1 or after 9999"


def interval(amount: Number, unit: str) -> dict[str, HogValue]:
    """A span of time as a value."""
    return {_INTERVAL: True, "value": amount, "unit": unit}


def is_interval(value: HogValue) -> bool:
    """Whether the value is what `interval` makes."""
    return isinstance(value, Mapping) and value.get(_INTERVAL) is True


def moved(base: HogValue, span: HogValue, sign: int) -> date | None:
    """The moment or day that the span leads to from `base`; None where `base` is no moment."""
    start = base if isinstance(base, date) else to_moment(base)
    if start is None or not isinstance(span, Mapping):
        return None
    amount, unit = span.get("value"), span.get("unit")
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not isinstance(unit, str):
        return None
    return shifted(start, sign * amount, unit)


def shifted(base: date, amount: Number, unit: str) -> date:
    """The moment so many units later; a day stays a day. Raises TemplateError for an unknown unit, or part of a day."""
    moment = base if isinstance(base, datetime) else datetime(base.year, base.month, base.day, tzinfo=UTC)
    try:
        later = _later(moment, amount, unit)
    except (OverflowError, ValueError):
        raise fault(_OUT_OF_RANGE) from None
    return later if isinstance(base, datetime) else later.date()


def _later(moment: datetime, amount: Number, unit: str) -> datetime:
    if unit in _EXACT:
        return (moment.astimezone(UTC) + timedelta(seconds=amount * _EXACT[unit])).astimezone(moment.tzinfo)
    if not math.isfinite(amount) or amount != int(amount):
        raise fault(f"only whole {unit}s can be added, not {amount}", "use hours, minutes or seconds")
    if unit in _DAYS:
        return _existing(moment + timedelta(days=int(amount) * _DAYS[unit]))
    if unit in _MONTHS:
        return _existing(_months_later(moment, int(amount) * _MONTHS[unit]))
    raise unknown_unit(unit)


def unknown_unit(unit: object) -> Exception:
    """The error for what is no unit of time."""
    return fault(f"{str(unit)[:40]!r} is no unit of time", f"one of {', '.join(UNITS)}")


def _months_later(moment: datetime, months: int) -> datetime:
    """The same day so many months later, or the month's last where it is shorter."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 31
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _existing(moment: datetime) -> datetime:
    """The moment as the clock shows it: a time that the clocks skip is as much later."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo)


def truncated(moment: datetime, unit: str) -> datetime:
    """The beginning of the unit that the moment lies in, by its zone's clock; weeks begin on Monday."""
    if unit == "second":
        return moment.replace(microsecond=0)
    if unit == "minute":
        return moment.replace(second=0, microsecond=0)
    if unit == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    first = {"day": moment.day, "month": 1, "year": 1, "week": moment.day}.get(unit)
    if first is None:
        raise unknown_unit(unit)
    try:
        day = moment.replace(day=first, hour=0, minute=0, second=0, microsecond=0, fold=0)
        day = day.replace(month=1) if unit == "year" else day
        return _existing(day - timedelta(days=day.weekday()) if unit == "week" else day)
    except OverflowError:
        raise fault(_OUT_OF_RANGE) from None


def between(unit: str, start: datetime, end: datetime) -> int:
    """How many whole units lie between, below zero where `end` is earlier; months and years by the calendar alone."""
    if unit == "year":
        return end.year - start.year
    if unit == "month":
        return (end.year - start.year) * 12 + end.month - start.month
    seconds = {**_EXACT, "day": 86_400, "week": 604_800}.get(unit)
    if seconds is None:
        raise unknown_unit(unit)
    return (end - start) // timedelta(seconds=seconds)
