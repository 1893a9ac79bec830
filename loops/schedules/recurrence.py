"""An RRULE of RFC 5545 as a value: its text read part by part, and refused with the part that is wrong.

What makes a rule explode or run for ever is refused here too: texts and lists that are too long, an interval of 0, more
times a day than anybody means, days that no month has.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Final, Literal, cast, get_args

from loops.definition.findings import shown
from loops.errors import ScheduleError
from loops.schedules.refusal import invalid, never, too_often

Frequency = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]

DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
LONGEST = 2000
MOST_COUNT = 10_000
MOST_INTERVAL = 10_000
MOST_POSITIONS = 50
MOST_TIMES = 1440

_FREQUENCIES: Final = get_args(Frequency)
_HOUR_MINUTES = 60
_MOST_WEEKS = 53
_MOST_IN_MONTH = 5  # of one weekday
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# What each list may hold: from, to, and whether it may be counted from the end.
_RANGES: Mapping[str, tuple[int, int, bool]] = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, _MOST_WEEKS, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_NAMES = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", *_RANGES, "WKST")
# With which frequencies RFC 5545 rules a part out.
_RULED_OUT: Mapping[str, tuple[Frequency, ...]] = {
    "BYWEEKNO": ("MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"),
    "BYYEARDAY": ("DAILY", "WEEKLY", "MONTHLY"),
    "BYMONTHDAY": ("WEEKLY",),
}
_DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_NUMBER = re.compile(r"[+-]?[0-9]{1,5}")
_UNTIL = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")
_EXAMPLE = "as FREQ=DAILY;INTERVAL=1"


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A rule. `by` has its lists of numbers by their names; `days` are weekdays from 0 for Monday, each with which of
    them in the period is meant, or None for every one; weeks begin on `week_start`.

    `until` is the last instant that may be (aware), or the last wall time (naive).
    """

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    by: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    days: tuple[tuple[int, int | None], ...] = ()
    week_start: int = 0


def read_rrule(text: str) -> Recurrence:
    """The rule that a text is. Raises ScheduleError with the path `rrule`."""
    if len(text) > LONGEST:
        raise invalid(f"It has {len(text)} characters; {LONGEST} is the most.", "shorten its lists")
    parts = _parts(text.upper())
    rule = Recurrence(
        frequency=_frequency(parts),
        interval=_number(parts, "INTERVAL", MOST_INTERVAL) or 1,
        count=_number(parts, "COUNT", MOST_COUNT),
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
        by={name: _numbers(name, parts[name]) for name in _RANGES if name in parts},
        days=_days(parts["BYDAY"]) if "BYDAY" in parts else (),
        week_start=_week_start(parts["WKST"]) if "WKST" in parts else 0,
    )
    _inspect(rule)
    return rule


def _parts(text: str) -> dict[str, str]:
    if "DTSTART" in text:
        raise invalid("DTSTART does not belong in it.", "give the first run as starts_at")
    if not text.isascii() or any(letter.isspace() for letter in text):
        raise invalid("It is one line of NAME=VALUE pairs with ; between them.", _EXAMPLE)
    found: dict[str, str] = {}
    for pair in text.removeprefix("RRULE:").split(";"):
        name, _, value = pair.partition("=")
        if not value:
            raise invalid(f"{shown(pair)!r} is no NAME=VALUE pair.", _EXAMPLE)
        if name not in _NAMES:
            raise invalid(f"{shown(name)} is no part of a rule.", f"known: {', '.join(_NAMES)}")
        if name in found:
            raise invalid(f"{name} stands twice.", "give it once")
        found[name] = value
    return found


def _frequency(parts: Mapping[str, str]) -> Frequency:
    value = parts.get("FREQ")
    if value is None:
        raise invalid("FREQ is missing.", _EXAMPLE)
    if value not in _FREQUENCIES:
        raise invalid(f"FREQ={shown(value)} is no frequency.", f"one of {', '.join(_FREQUENCIES[:-1])}")
    return cast("Frequency", value)


def _number(parts: Mapping[str, str], name: str, most: int) -> int | None:
    value = parts.get(name)
    if value is None:
        return None
    if not (value.isdigit() and len(value) <= len(str(most)) and 1 <= int(value) <= most):
        raise invalid(f"{name}={shown(value)} is no number from 1 to {most}.", _EXAMPLE)
    return int(value)


def _until(value: str) -> datetime:
    found = _UNTIL.fullmatch(value)
    try:
        if found is not None:
            clock = time.max if found[2] is None else time.fromisoformat(found[2])
            return datetime.combine(date.fromisoformat(found[1]), clock, UTC if found[3] else None)
    except ValueError as error:
        raise _no_until(value) from error
    raise _no_until(value)


def _no_until(value: str) -> ScheduleError:
    return invalid(f"UNTIL={shown(value)} is no date.", "as 20261231, 20261231T090000 or 20261231T080000Z")


def _numbers(name: str, value: str) -> tuple[int, ...]:
    least, most, from_end = _RANGES[name]
    found = set()
    for text in value.split(","):
        number = int(text) if _NUMBER.fullmatch(text) else None
        if number is None or not least <= (abs(number) if from_end else number) <= most:
            counted = f", or from -{most} to -{least}" if from_end else ""
            raise invalid(
                f"{name} holds {shown(text)!r}, which is no number from {least} to {most}{counted}.", _EXAMPLE
            )
        found.add(number)
    return tuple(sorted(found))


def _days(value: str) -> tuple[tuple[int, int | None], ...]:
    found: set[tuple[int, int | None]] = set()
    for text in value.split(","):
        day = _DAY.fullmatch(text)
        which = None if day is None or day[1] is None else int(day[1])
        if day is None or which == 0 or abs(which or 1) > _MOST_WEEKS:
            raise invalid(
                f"BYDAY holds {shown(text)!r}, which is no weekday.", "as MO; in a month or year also 1MO or -1FR"
            )
        found.add((DAYS.index(day[2]), which))
    return tuple(sorted(found, key=lambda one: (one[0], one[1] or 0)))


def _week_start(value: str) -> int:
    if value not in DAYS:
        raise invalid(f"WKST={shown(value)} is no weekday.", f"one of {', '.join(DAYS)}")
    return DAYS.index(value)


def _inspect(rule: Recurrence) -> None:
    """Refuse parts that do not go together."""
    if rule.frequency == "SECONDLY" or (rule.frequency == "MINUTELY" and rule.interval < _HOUR_MINUTES):
        hint = "count hours: FREQ=HOURLY;INTERVAL=1"
        raise too_often("rrule", f"FREQ={rule.frequency};INTERVAL={rule.interval} comes more often.", hint)
    if rule.count is not None and rule.until is not None:
        raise invalid("COUNT and UNTIL do not go together.", "give one of them")
    for name, frequencies in _RULED_OUT.items():
        if name in rule.by and rule.frequency in frequencies:
            raise invalid(f"{name} does not go with FREQ={rule.frequency}.", "RFC 5545 rules it out")
    positions = rule.by.get("BYSETPOS", ())
    if positions and not (rule.days or rule.by.keys() - {"BYSETPOS"}):
        raise invalid(
            "BYSETPOS chooses among what other BY… parts give, and there is none.", "add one, or leave it out"
        )
    if len(positions) > MOST_POSITIONS:
        raise invalid(f"BYSETPOS has {len(positions)} numbers; {MOST_POSITIONS} is the most.", "choose fewer")
    times = math.prod(len(rule.by.get(name, (0,))) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    if times > MOST_TIMES:
        raise invalid(
            f"BYHOUR, BYMINUTE and BYSECOND make {times} times a day; {MOST_TIMES} is the most.", "name fewer"
        )
    _inspect_days(rule)
    _inspect_month_days(rule)


def _inspect_days(rule: Recurrence) -> None:
    which = [number for _, number in rule.days if number is not None]
    if not which:
        return
    if rule.frequency not in ("YEARLY", "MONTHLY") or "BYWEEKNO" in rule.by:
        raise invalid("A number before a weekday needs FREQ=MONTHLY, or FREQ=YEARLY without BYWEEKNO.", "as BYDAY=MO")
    if (rule.frequency == "MONTHLY" or "BYMONTH" in rule.by) and max(map(abs, which)) > _MOST_IN_MONTH:
        raise invalid(f"No month has more than {_MOST_IN_MONTH} of a weekday.", "as BYDAY=1MO or BYDAY=-1MO")


def _inspect_month_days(rule: Recurrence) -> None:
    """Days that none of the months has: nothing would ever find one."""
    months, days = rule.by.get("BYMONTH"), rule.by.get("BYMONTHDAY")
    if months and days and min(map(abs, days)) > max(_MONTH_DAYS[month - 1] for month in months):
        raise never("rrule", "No month of BYMONTH has a day of BYMONTHDAY.")
