"""Timetables as tests make them, and what they are asked."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from loops.errors import ScheduleError
from loops.schedules.timetable import Timetable, Timing, timetable

HOURLY = "FREQ=HOURLY;INTERVAL=1"
DAILY = "FREQ=DAILY;INTERVAL=1"
WEEKDAYS = "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR"
WEEKLY = "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO"
ONCE = "FREQ=DAILY;COUNT=1"


def at(text: str) -> datetime:
    """An instant, in UTC where no offset says otherwise."""
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)


def table(rule: str = DAILY, starts_at: str = "2026-01-05T09:00:00", zone: str = "UTC") -> Timetable:
    return timetable(Timing(zone, rrule=rule, starts_at=starts_at))


def cron(line: str, zone: str = "UTC", starts_at: str | None = None) -> Timetable:
    return timetable(Timing(zone, cron=line, starts_at=starts_at))


def upcoming(found: Timetable, after: str, count: int = 3) -> list[str]:
    """The next occurrences in UTC, to the minute."""
    return [f"{one.at:%Y-%m-%d %H:%M}" for one in itertools.islice(found.after(at(after)), count)]


def local(found: Timetable, after: str, count: int = 3) -> list[str]:
    """The next occurrences as the zone's clock shows them, with the offset."""
    return [
        f"{one.at.astimezone(found.zone):%Y-%m-%d %H:%M%z}" for one in itertools.islice(found.after(at(after)), count)
    ]


def attempt(read: Callable[[], object]) -> ScheduleError | None:
    """What reading is refused with, None where it is not."""
    try:
        read()
    except ScheduleError as error:
        return error
    return None


def refusal(**timing: Any) -> ScheduleError:
    """What a timing is refused with."""
    timing.setdefault("timezone", "UTC")
    if "rrule" in timing:
        timing.setdefault("starts_at", "2026-01-05T09:00:00")
    error = attempt(lambda: timetable(Timing(**timing)))
    assert error is not None, f"{timing} was not refused"
    return error
