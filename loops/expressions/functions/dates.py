"""Functions of moments and days. A moment may also be given as ISO text or epoch seconds."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial

from loops.expressions.coercion import epoch_seconds
from loops.expressions.evaluation import Evaluation, Run
from loops.expressions.faults import fault
from loops.expressions.functions.function import AnyFunction, kind, lazy, number_of, plain, refuse, text_of
from loops.expressions.intervals import UNITS, between, interval, shifted, truncated
from loops.expressions.moments import format_hog, in_zone, to_moment, zone_named
from loops.expressions.notation import HogValue
from loops.expressions.operators import settled

_A_MOMENT = "a date, ISO text or epoch seconds"
_PARTS = ("year", "month", "day", "hour", "minute", "second")


def _now(runs: Sequence[Run]) -> Run:
    if not runs:
        return Evaluation.now
    zone = runs[0]
    return lambda evaluation: in_zone(evaluation.now(), zone_named(zone(evaluation)))


def _today(_runs: Sequence[Run]) -> Run:
    return lambda evaluation: evaluation.now().astimezone(UTC).date()


def _moment(function: str, value: HogValue, zone: tzinfo = UTC) -> datetime:
    moment = to_moment(value, zone)
    return refuse(function, _A_MOMENT, value) if moment is None else moment


def _format_date_time(value: HogValue, pattern: HogValue, zone: HogValue = None) -> HogValue:
    moment = _moment("formatDateTime", value)
    format_text = text_of("formatDateTime", pattern)
    return format_hog(moment if zone is None else in_zone(moment, zone_named(zone)), format_text)


def _to_date_time(value: HogValue, zone: HogValue = None) -> HogValue:
    where = UTC if zone is None else zone_named(zone)
    moment = to_moment(value, where)
    if moment is None:
        refuse("toDateTime", "ISO text such as 2026-03-20T15:30:00Z or epoch seconds", value)
    return moment if zone is None else in_zone(moment, where)


def _to_date(value: HogValue) -> HogValue:
    return _moment("toDate", value).date()


def _to_time_zone(value: HogValue, zone: HogValue) -> HogValue:
    return in_zone(_moment("toTimeZone", value), zone_named(zone))


def _to_unix(function: str, factor: int, value: HogValue, zone: HogValue = None) -> HogValue:
    return settled(epoch_seconds(_moment(function, value, UTC if zone is None else zone_named(zone))) * factor)


def _from_unix(function: str, factor: int, value: HogValue) -> HogValue:
    return _moment(function, number_of(function, value) / factor)


def _date_add(unit: HogValue, amount: HogValue, value: HogValue) -> HogValue:
    base = value if isinstance(value, date) else _moment("dateAdd", value)
    return shifted(base, number_of("dateAdd", amount), _unit("dateAdd", unit))


def _add_days(value: HogValue, amount: HogValue) -> HogValue:
    base = value if isinstance(value, date) else _moment("addDays", value)
    return shifted(base, number_of("addDays", amount), "day")


def _date_diff(unit: HogValue, start: HogValue, end: HogValue) -> HogValue:
    return between(_unit("dateDiff", unit), _moment("dateDiff", start), _moment("dateDiff", end))


def _date_trunc(unit: HogValue, value: HogValue) -> HogValue:
    return truncated(_moment("dateTrunc", value), _unit("dateTrunc", unit))


def _to_start(function: str, unit: str, value: HogValue) -> HogValue:
    return truncated(_moment(function, value), unit)


def _unit(function: str, unit: HogValue) -> str:
    return text_of(function, unit)


def _unit_fault(unit: HogValue) -> str:
    return "" if unit in UNITS else f"the unit must be one of {', '.join(UNITS)}"


def _extract(part: HogValue, value: HogValue) -> HogValue:
    if part not in _PARTS:
        raise fault(f"extract() does not know the part {kind(part)}", f"one of {', '.join(_PARTS)}")
    found: int = getattr(_moment("extract", value), str(part))
    return found


def _part_fault(part: HogValue) -> str:
    return "" if part in _PARTS else f"the part must be one of {', '.join(_PARTS)}"


def _to_year(value: HogValue) -> HogValue:
    return _moment("toYear", value).year


def _to_month(value: HogValue) -> HogValue:
    return _moment("toMonth", value).month


def _to_year_and_month(value: HogValue) -> HogValue:
    moment = _moment("toYYYYMM", value)
    return moment.year * 100 + moment.month


def _interval(function: str, unit: str, amount: HogValue) -> HogValue:
    return interval(number_of(function, amount), unit)


_OF_UNIT = {0: _unit_fault}

FUNCTIONS: Mapping[str, AnyFunction] = {
    "addDays": plain(_add_days, 2),
    "dateAdd": plain(_date_add, 3, checks=_OF_UNIT),
    "dateDiff": plain(_date_diff, 3, checks=_OF_UNIT),
    "dateTrunc": plain(_date_trunc, 2, checks=_OF_UNIT),
    "extract": plain(_extract, 2, checks={0: _part_fault}),
    "formatDateTime": plain(_format_date_time, 2, 3),
    "fromUnixTimestamp": plain(partial(_from_unix, "fromUnixTimestamp", 1), 1),
    "fromUnixTimestampMilli": plain(partial(_from_unix, "fromUnixTimestampMilli", 1000), 1),
    "now": lazy(_now, 0, 1),
    "toDate": plain(_to_date, 1),
    "toDateTime": plain(_to_date_time, 1, 2),
    "today": lazy(_today, 0, 0),
    "toIntervalDay": plain(partial(_interval, "toIntervalDay", "day"), 1),
    "toIntervalHour": plain(partial(_interval, "toIntervalHour", "hour"), 1),
    "toIntervalMinute": plain(partial(_interval, "toIntervalMinute", "minute"), 1),
    "toIntervalMonth": plain(partial(_interval, "toIntervalMonth", "month"), 1),
    "toMonth": plain(_to_month, 1),
    "toStartOfDay": plain(partial(_to_start, "toStartOfDay", "day"), 1),
    "toStartOfHour": plain(partial(_to_start, "toStartOfHour", "hour"), 1),
    "toStartOfMonth": plain(partial(_to_start, "toStartOfMonth", "month"), 1),
    "toStartOfWeek": plain(partial(_to_start, "toStartOfWeek", "week"), 1),
    "toTimeZone": plain(_to_time_zone, 2),
    "toUnixTimestamp": plain(partial(_to_unix, "toUnixTimestamp", 1), 1, 2),
    "toUnixTimestampMilli": plain(partial(_to_unix, "toUnixTimestampMilli", 1000), 1, 2),
    "toYear": plain(_to_year, 1),
    "toYYYYMM": plain(_to_year_and_month, 1),
}
