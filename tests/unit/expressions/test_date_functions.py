"""Functions of moments and days; zones, changes of the clocks, ends of months and of time."""

import pytest

from tests.unit.expressions.evaluating import failure, refusal, same_type, value

BERLIN = "toDateTime('2026-03-28 02:30', 'Europe/Berlin')"  # the day before the clocks go forward at 02:00


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("toUnixTimestamp('1970-01-02')", 86400),
        ("toUnixTimestamp('1970-01-01 01:00', 'Europe/Berlin')", 0),
        ("toUnixTimestamp(toDate('1970-01-02'))", 86400),
        ("toUnixTimestamp('1969-12-31T23:59:59.5Z')", -0.5),
        ("toUnixTimestampMilli('1970-01-01T00:00:01.5Z')", 1500),
        ("fromUnixTimestamp(0)", "1970-01-01T00:00:00.000Z"),
        ("fromUnixTimestamp('60')", "1970-01-01T00:01:00.000Z"),
        ("fromUnixTimestampMilli(1500)", "1970-01-01T00:00:01.500Z"),
        ("toTimeZone(fromUnixTimestamp(0), 'Asia/Kolkata')", "1970-01-01T05:30:00.000+05:30"),
        ("toDate('2026-03-28T23:30:00Z')", "2026-03-28"),
        ("toDate(0)", "1970-01-01"),
        ("toDate(toTimeZone('2026-03-28T23:30:00Z', 'Europe/Berlin'))", "2026-03-29"),
        ("toDate(toDate('2026-03-28'))", "2026-03-28"),
        ("today()", "2026-03-28"),
        ("typeof(today())", "date"),
        ("addDays(today(), 4)", "2026-04-01"),
        ("addDays('2026-03-28T12:00:00Z', -28)", "2026-02-28T12:00:00.000Z"),
        ("dateAdd('month', 1, '2026-01-31')", "2026-02-28T00:00:00.000Z"),
        ("dateAdd('month', -1, toDate('2026-03-31'))", "2026-02-28"),
        ("dateAdd('month', 12, toDate('2024-02-29'))", "2025-02-28"),
        ("dateAdd('year', 4, toDate('2024-02-29'))", "2028-02-29"),
        ("dateAdd('week', 1, today())", "2026-04-04"),
        ("dateAdd('hour', 1.5, now())", "2026-03-28T16:34:05.000Z"),
        ("dateAdd('minute', 1, now())", "2026-03-28T15:05:05.000Z"),
        ("dateAdd('second', 0.5, now())", "2026-03-28T15:04:05.500Z"),
        ("dateAdd('hour', 30, today())", "2026-03-29"),
        # A day later is the same time of day; a time that the clocks skip is an hour later; 24 hours are 24 hours.
        ("addDays(toDateTime('2026-03-28 12:00', 'Europe/Berlin'), 1)", "2026-03-29T12:00:00.000+02:00"),
        (f"addDays({BERLIN}, 1)", "2026-03-29T03:30:00.000+02:00"),
        (f"dateAdd('hour', 24, {BERLIN})", "2026-03-29T03:30:00.000+02:00"),
        ("dateAdd('hour', 24, toDateTime('2026-03-28 12:00', 'Europe/Berlin'))", "2026-03-29T13:00:00.000+02:00"),
        ("now() + toIntervalDay(1)", "2026-03-29T15:04:05.000Z"),
        ("toIntervalHour(1) + now()", "2026-03-28T16:04:05.000Z"),
        ("now() - toIntervalMinute(5)", "2026-03-28T14:59:05.000Z"),
        ("today() - toIntervalMonth(1)", "2026-02-28"),
        ("stamp + toIntervalDay(1)", "2026-03-29T00:00:00.000Z"),
        ("toIntervalDay(1) - toIntervalDay(1)", None),
        ("none + toIntervalDay(1)", None),
        ("now() > now() - toIntervalDay(1)", True),
        ("toIntervalDay(2).value", 2),
        ("dateDiff('day', '2026-03-01', '2026-03-02 23:59')", 1),
        ("dateDiff('day', '2026-03-02', '2026-03-01')", -1),
        ("dateDiff('day', '2026-03-02 12:00', '2026-03-02')", -1),
        ("dateDiff('hour', '2026-03-01', '2026-03-02')", 24),
        ("dateDiff('minute', '2026-03-01', '2026-03-01 00:01:59')", 1),
        ("dateDiff('second', '2026-03-01', '2026-03-01 00:00:01.9')", 1),
        ("dateDiff('week', '2026-03-01', '2026-03-14')", 1),
        ("dateDiff('month', '2026-01-31', '2026-02-01')", 1),
        ("dateDiff('year', '2025-12-31', '2026-01-01')", 1),
        ("dateTrunc('year', now())", "2026-01-01T00:00:00.000Z"),
        ("dateTrunc('month', now())", "2026-03-01T00:00:00.000Z"),
        ("dateTrunc('week', now())", "2026-03-23T00:00:00.000Z"),
        ("dateTrunc('day', now())", "2026-03-28T00:00:00.000Z"),
        ("dateTrunc('minute', now())", "2026-03-28T15:04:00.000Z"),
        ("dateTrunc('second', '2026-03-28T15:04:05.9Z')", "2026-03-28T15:04:05.000Z"),
        ("toStartOfDay(toDateTime('2026-03-29 12:00', 'Europe/Berlin'))", "2026-03-29T00:00:00.000+01:00"),
        # In Beirut the clocks went forward at midnight: the day began at 01:00.
        ("toStartOfDay(toDateTime('2026-03-29 12:00', 'Asia/Beirut'))", "2026-03-29T01:00:00.000+03:00"),
        ("toStartOfHour('2026-03-28T15:04:05Z')", "2026-03-28T15:00:00.000Z"),
        ("toStartOfMonth(today())", "2026-03-01T00:00:00.000Z"),
        ("toStartOfWeek(toDate('2026-03-22'))", "2026-03-16T00:00:00.000Z"),
        ("extract('day', now())", 28),
        ("extract('hour', toTimeZone(now(), 'Asia/Tokyo'))", 0),
        ("extract('second', '2026-03-28T15:04:05.9Z')", 5),
        ("extract('hour', today())", 0),
        ("toYear('2026-03-28')", 2026),
        ("toMonth(today())", 3),
        ("toYYYYMM(now())", 202603),
        ("formatDateTime(dateAdd('day', 1, today()), '%Y-%m-%d')", "2026-03-29"),
    ],
)
def test_functions_of_dates(source, expected):
    assert same_type(value(source), expected)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("toUnixTimestamp(none)", "toUnixTimestamp() needs a date, ISO text or epoch seconds, not null"),
        ("toDate('soon')", "toDate() needs a date"),
        ("fromUnixTimestamp('x')", "fromUnixTimestamp() needs a number"),
        ("fromUnixTimestamp(1e20)", "fromUnixTimestamp() needs a date"),
        ("fromUnixTimestamp(huge)", "fromUnixTimestamp() needs a smaller number"),
        ("toTimeZone(now(), 'Mars/Base')", "there is no time zone 'Mars/Base'"),
        ("toTimeZone(list, 'UTC')", "not a list"),
        ("dateAdd(text, 1, now())", "is no unit of time"),
        ("dateAdd(labels[1].n, 1, now())", "dateAdd() needs a text"),
        ("dateAdd('day', 1.5, now())", "only whole days can be added"),
        ("dateAdd('month', nan, now())", "dateAdd() needs a number"),
        ("dateAdd('day', 'x', now())", "dateAdd() needs a number, not the text 'x'"),
        ("dateAdd('year', 9000, now())", "before the year 1 or after 9999"),
        ("dateAdd('year', -3000, now())", "before the year 1 or after 9999"),
        ("dateAdd('month', 1e300, now())", "before the year 1 or after 9999"),
        ("dateAdd('day', 1e300, now())", "before the year 1 or after 9999"),
        ("dateAdd('hour', 1e300, now())", "before the year 1 or after 9999"),
        ("addDays(true, 1)", "not a boolean"),
        ("now() - toIntervalDay(1e9)", "before the year 1 or after 9999"),
        ("toIntervalDay('x')", "toIntervalDay() needs a number"),
        ("dateDiff('day', none, now())", "dateDiff() needs a date"),
        ("dateTrunc(text, now())", "is no unit of time"),
        ("dateTrunc('day', map)", "not a map"),
        ("extract(list, now())", "extract() does not know the part a list"),
        ("toYear('x')", "toYear() needs a date"),
        ("toStartOfWeek(none)", "toStartOfWeek() needs a date"),
    ],
)
def test_a_value_that_a_function_of_dates_cannot_take_fails_and_is_named(source, says):
    assert says in failure(source, huge=10**400)


def test_the_first_week_of_time_has_no_beginning():
    assert value("dateTrunc('week', toDateTime('0001-01-01'))") == "0001-01-01T00:00:00.000Z"
    assert "before the year 1" in failure("toStartOfWeek(toDateTime('0001-01-01', 'Asia/Tokyo'))")


@pytest.mark.parametrize("call", ["dateAdd('dya', 1, now())", "dateDiff('days', now(), now())", "dateTrunc(5, now())"])
def test_a_unit_that_does_not_exist_is_refused_when_saved(call):
    assert "the unit must be one of second, minute, hour, day, week, month, year" in refusal(call).message


def test_a_part_that_does_not_exist_is_refused_when_saved():
    assert "the part must be one of year, month" in refusal("extract('quarter', now())").message
