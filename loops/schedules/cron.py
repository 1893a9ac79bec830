"""Cron lines of five fields, read by cronsim."""

import copy
from collections.abc import Iterator
from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from loops.definition.findings import shown
from loops.errors import ScheduleError
from loops.schedules.refusal import never, too_often

LONGEST = 200

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_ANY_MOMENT = datetime(2000, 1, 1)  # noqa: DTZ001 - wall times have no zone
_EXAMPLE = "as 0 9 * * 1-5 (minute, hour, day of the month, month, day of the week)"
_SECOND = timedelta(seconds=1)


class CronWalls:
    """The wall times of a cron line. `hourly` where its hours are a star or a step: it then counts hours, and follows
    the clock; with fixed hours it names times of a day."""

    def __init__(self, text: str) -> None:
        """Raises ScheduleError with the path `cron`."""
        fields = text.split()
        if len(text) > LONGEST or not text.isascii() or len(fields) != len(_FIELDS):
            raise ScheduleError.at("cron", f"{shown(text)!r} is no cron line of five fields", _EXAMPLE)
        try:
            self._line = CronSim(text, _ANY_MOMENT)
        except (CronSimError, ValueError) as error:
            raise _refused(text, error) from error
        self.hourly = "*" in fields[1] or "/" in fields[1]
        if len(self._line.minutes) > 1:
            raise too_often(
                "cron", f"The minute {shown(fields[0])!r} comes more than once an hour.", "one minute, as 0 * * * *"
            )

    def since(self, wall: datetime) -> Iterator[datetime]:
        """Those at or after a wall time, in their order; cronsim looks 50 years ahead."""
        line = copy.copy(self._line)
        line.dt = wall.replace(microsecond=0) - (_SECOND if wall.microsecond == 0 else timedelta())
        return line


def _refused(text: str, error: Exception) -> ScheduleError:
    if _has_days(text):
        return never("cron", "No month of it has such a day.")
    return ScheduleError.at("cron", f"{shown(text)!r} is no cron line: {error}", _EXAMPLE)


def _has_days(text: str) -> bool:
    """Whether it is the months alone that the days of a line do not go with."""
    minute, hour, day, _, weekday = text.split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", _ANY_MOMENT)
    except (CronSimError, ValueError):
        return False
    return True
