"""When a schedule occurs: the one function that the check at saving, the preview and the firing all ask.

table = timetable(Timing(rrule="FREQ=DAILY;INTERVAL=1", starts_at="2026-07-06T09:00:00", timezone="Europe/Berlin"))
table.next_after(now)          # the next occurrence, None when there is none any more
table.after(now)               # all of them, one by one
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from loops.errors import ScheduleError
from loops.schedules.cron import CronWalls
from loops.schedules.hours import COUNTED, HourSteps
from loops.schedules.recurrence import Recurrence, read_rrule
from loops.schedules.refusal import never, too_often
from loops.schedules.start import Start, read_start
from loops.schedules.wall_clock import (
    Placing,
    as_shown,
    once,
    set_near,
    wall_of,
    zone_of,
)
from loops.schedules.walls import RuleWalls

_KEPT = 4096
_NEVER_OVER = datetime(9000, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_SEARCHED = timedelta(days=1)  # for as long nothing found is believed: the 50 years move on
_SAMPLE = 400
_SAMPLE_YEARS = 12
_COUNTED_YEARS = 200
"""What COUNT takes beyond so many years ends nothing that anybody lives to see."""


class Occurrence(NamedTuple):
    """One time that a schedule occurs: the instant, and the wall time that the rule asks for, naive. The zone's clock
    shows another one where it skips that."""

    at: datetime
    wall: datetime


@dataclass(frozen=True, slots=True)
class Timing:
    """What decides when a schedule occurs, as it was given. Exactly one of `rrule` and `cron`; a cron line may have no
    start."""

    timezone: str
    rrule: str | None = None
    cron: str | None = None
    starts_at: str | None = None


class Timetable(ABC):
    """The occurrences of a schedule in a zone, in their order; those of a rule stand an hour or more apart."""

    def __init__(self, zone: ZoneInfo, start: Start | None) -> None:
        self.zone = zone
        self.start = start
        self._known: tuple[datetime, datetime | None] | None = None

    @abstractmethod
    def after(self, instant: datetime) -> Iterator[Occurrence]:
        """Those later than an instant."""

    def next_after(self, instant: datetime) -> datetime | None:
        """The first later than an instant; None when there is none, or none in 50 years. Asked again before that has
        come it costs no search: whoever writes in a transaction asks beforehand."""
        if self._known is not None:
            asked, known = self._known
            if asked <= instant < (asked + _SEARCHED if known is None else known):
                return known
        found = next(self.after(instant), None)
        self._known = (instant, None if found is None else found.at)
        return self._known[1]

    def latest(self, after: datetime, until: datetime, most: int) -> list[datetime]:
        """The last ones later than `after` and not later than `until`, at most so many, in their order."""
        span = most * _HOUR
        while True:
            begin = max(after, until - span)
            found = [one.at for one in itertools.takewhile(lambda one: one.at <= until, self.after(begin))]
            if len(found) >= most or begin == after:
                return found[-most:]
            span *= 8


class _Walls(Protocol):
    """Wall times that a rule names."""

    def since(self, wall: datetime) -> Iterator[datetime]:
        """Those at or after one, in their order."""


class _ByWall(Timetable):
    """Wall times, each laid into the zone: what repeats daily or less often, and cron lines."""

    def __init__(self, walls: _Walls, placing: Placing, zone: ZoneInfo, start: Start | None, last: datetime) -> None:
        """`last` is the last instant that may be."""
        super().__init__(zone, start)
        self._walls = walls
        self._placing = placing
        self._last = last

    def after(self, instant: datetime) -> Iterator[Occurrence]:
        """See Timetable.after."""
        if self.start is not None:
            instant = max(instant, self.start.at - _TICK)
        found = self._next(instant)
        while found is not None and found.at <= self._last:
            yield found
            found = self._next(found.at)

    def _next(self, instant: datetime) -> Occurrence | None:
        # 1. Where the clock is set, wall times that lie further off may come first: they are looked at too.
        margin = set_near(instant, self.zone)
        best: Occurrence | None = None
        for wall in self._walls.since(wall_of(instant, self.zone) - margin):
            for at in self._placed(wall):
                if at > instant and (best is None or at < best.at):
                    best = Occurrence(at, wall)
            # 2. Later wall times are later instants, once they lie behind what the clock shows at the best one.
            if best is not None and wall >= wall_of(best.at, self.zone) + margin:
                break
        return best

    def _placed(self, wall: datetime) -> tuple[datetime, ...]:
        # A start may be given as the second instant of its wall time.
        if self.start is not None and wall == self.start.wall:
            return (self.start.at,)
        return self._placing(wall, self.zone)


class _ByHours(Timetable):
    """Steps of elapsed time."""

    def __init__(self, steps: HourSteps, zone: ZoneInfo, start: Start, last: datetime) -> None:
        super().__init__(zone, start)
        self._steps = steps
        self._last = last

    def after(self, instant: datetime) -> Iterator[Occurrence]:
        """See Timetable.after."""
        for at in self._steps.since(instant + _TICK):
            if at > self._last:
                return
            yield Occurrence(at, wall_of(at, self.zone))


@lru_cache(maxsize=_KEPT)
def timetable(timing: Timing) -> Timetable:
    """When a schedule of such a timing occurs. Raises ScheduleError with the path of what cannot be used."""
    zone = zone_of(timing.timezone)
    start = None if timing.starts_at is None else read_start(timing.starts_at, zone)
    if timing.cron is not None:
        line = CronWalls(timing.cron)
        return _ByWall(line, as_shown if line.hourly else once, zone, start, _NEVER_OVER)
    if timing.rrule is None or start is None:
        raise ScheduleError.at("starts_at", "is missing", "the first run, as 2026-07-06T09:00:00+02:00")
    rule = read_rrule(timing.rrule)
    last = _NEVER_OVER if rule.until is None else _instant(rule.until, zone)
    if rule.frequency in COUNTED:
        steps = HourSteps(rule, start.at, zone)
        return _ByHours(steps, zone, start, min(last, _counted(steps.since(start.at), rule, start.at)))
    walls = RuleWalls(rule, start.wall)
    _inspect_gaps(rule, walls, start)
    counted = _counted(walls.since(start.wall), rule, start.wall)
    return _ByWall(walls, once, zone, start, min(last, _instant(counted, zone)))


def _instant(moment: datetime, zone: ZoneInfo) -> datetime:
    """The last instant of a moment that may be a wall time."""
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone, fold=1)).astimezone(UTC)


def _counted(found: Iterator[datetime], rule: Recurrence, start: datetime) -> datetime:
    """What COUNT ends with, of wall times or of instants, so that a rule can be begun anywhere."""
    if rule.count is None:
        return _NEVER_OVER
    near = itertools.takewhile(lambda one: one.year < start.year + _COUNTED_YEARS, found)
    counted = list(itertools.islice(near, rule.count))
    if not counted:
        raise never("rrule")
    return counted[-1] if len(counted) == rule.count else _NEVER_OVER


def _inspect_gaps(rule: Recurrence, walls: RuleWalls, start: Start) -> None:
    """Refuse what comes more than once an hour. Times of a day with one minute cannot; where BYSETPOS chooses among
    more, its choice is looked at over years."""
    moments = len(rule.by.get("BYMINUTE", (0,))) * len(rule.by.get("BYSECOND", (0,)))
    if moments == 1:
        return
    hint = "one minute and one second, as BYHOUR=9,13;BYMINUTE=30"
    if "BYSETPOS" not in rule.by:
        raise too_often("rrule", f"BYMINUTE and BYSECOND name {moments} moments of an hour.", hint)
    near = itertools.takewhile(lambda one: one.year < start.wall.year + _SAMPLE_YEARS, walls.since(start.wall))
    for one, other in itertools.pairwise(itertools.islice(near, _SAMPLE)):
        if other - one < _HOUR:
            raise too_often("rrule", f"{one} and {other} are less than an hour apart.", hint)
