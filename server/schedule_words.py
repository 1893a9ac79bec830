"""When a schedule runs, in words: for the pages, the API and the command line."""

from datetime import datetime

from loops.errors import ScheduleError
from loops.schedules.draft import SHAPES
from loops.schedules.recurrence import DAYS
from loops.schedules.timetable import Timing, timetable

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WEEKLY = SHAPES["weekly"].replace("<MO..SU>", "")


def schedule_words(timing: Timing) -> str:
    """`every day at 09:00, Europe/Berlin`; of rules that are none of the five shapes, the rule as it stands."""
    return f"{_rule(timing)}, {timing.timezone}"


def _rule(timing: Timing) -> str:
    if timing.rrule is None:
        return f"cron {timing.cron}"
    start = _start(timing)
    if start is None:
        return timing.rrule
    clock = start.strftime("%H:%M")
    weekday = timing.rrule.removeprefix(_WEEKLY)
    if weekday in DAYS:
        return f"every {_WEEKDAYS[DAYS.index(weekday)]} at {clock}"
    return {
        SHAPES["hourly"]: f"every hour at :{start:%M}",
        SHAPES["daily"]: f"every day at {clock}",
        SHAPES["weekdays"]: f"Monday to Friday at {clock}",
        SHAPES["once"]: f"once, on {start:%Y-%m-%d} at {clock}",
    }.get(timing.rrule, f"{timing.rrule} from {start:%Y-%m-%d %H:%M}")


def _start(timing: Timing) -> datetime | None:
    """The wall time of the start; None of a stored schedule that cannot be read any more."""
    try:
        start = timetable(timing).start
    except ScheduleError:
        return None
    return None if start is None else start.wall
