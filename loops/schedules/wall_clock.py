"""Where a wall time of a zone lies among instants, also where clocks change (D16).

A clock that goes forward skips wall times, one that goes back shows some twice. Two answers are in use: `once` gives
each wall time one instant, `as_shown` gives every instant at which the clock shows it.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo

from loops.errors import ScheduleError
from loops.zones import NO_ZONES, zone_hint

Placing: TypeAlias = Callable[[datetime, tzinfo], tuple[datetime, ...]]

_HOUR = timedelta(hours=1)
# No clock was ever set by more: whole days were left out in the Pacific.
_WIDEST = timedelta(hours=26)
# Others' ways to count.
_NO_ZONES_BELOW = ("posix/", "right/")


def zone_of(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises ScheduleError with the path `timezone`."""
    if name in NO_ZONES or name.startswith(_NO_ZONES_BELOW):
        raise _unknown(name)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise _unknown(name) from error


def _unknown(name: str) -> ScheduleError:
    return ScheduleError.at("timezone", "Invalid or unknown timezone.", zone_hint(name))


def wall_of(instant: datetime, zone: tzinfo) -> datetime:
    """What the zone's clock shows at an instant, naive."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def first_instant(wall: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the clock shows a wall time. One that it skips lies after the change by as much as it
    lies after the beginning of what is skipped: 02:30 becomes 03:30."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def is_skipped(wall: datetime, zone: tzinfo) -> bool:
    """Whether the clock never shows this wall time."""
    return wall_of(first_instant(wall, zone), zone) != wall


def is_doubled(wall: datetime, zone: tzinfo) -> bool:
    """Whether the clock shows this wall time twice."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first != second and not is_skipped(wall, zone)


def once(wall: datetime, zone: tzinfo) -> tuple[datetime, ...]:
    """One instant for each wall time: skipped ones are moved on, of two the first counts."""
    return (first_instant(wall, zone),)


def as_shown(wall: datetime, zone: tzinfo) -> tuple[datetime, ...]:
    """Every instant at which the clock shows a wall time: none, one, or two. Two that are less than an hour apart,
    where clocks change by half an hour, count as one."""
    if is_skipped(wall, zone):
        return ()
    first = first_instant(wall, zone)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return (first,) if second - first < _HOUR else (first, second)


def set_near(instant: datetime, zone: tzinfo) -> timedelta:
    """By how much the zone's clock is set close to an instant; zero where it is not. By so much may wall times and
    instants differ in their order."""
    before, after = (instant.astimezone(zone).utcoffset() for instant in (instant - _WIDEST, instant + _WIDEST))
    return abs((after or timedelta()) - (before or timedelta()))
