"""`starts_at`: the first possible occurrence, as an instant and as the wall time that the days after repeat (D18)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from loops.definition.findings import shown
from loops.errors import Fault, ScheduleError
from loops.schedules.wall_clock import first_instant, wall_of

FIRST_YEAR, LAST_YEAR = 1970, 2199
LONGEST = 40

_EXAMPLE = "as 2026-07-06T09:00:00+02:00, or without an offset for the wall time in the timezone"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a schedule begins: `at` in UTC, `wall` naive, both to the second."""

    at: datetime
    wall: datetime


def read_start(text: str, zone: ZoneInfo) -> Start:
    """The start that a text is. With an offset the instant counts, and its wall time is the zone's; without, it is a
    wall time in the zone. Raises ScheduleError with the path `starts_at`."""
    given = _parsed(text)
    if given.tzinfo is None:
        return Start(first_instant(given, zone), given)
    at = given.astimezone(UTC)
    return Start(at, wall_of(at, zone))


def start_warnings(text: str, zone: ZoneInfo) -> tuple[Fault, ...]:
    """What is odd about a start that can be read."""
    given, warnings = _parsed(text), []
    if given.tzinfo is not None and given.utcoffset() != given.astimezone(zone).utcoffset():
        local = given.astimezone(zone).isoformat()
        message = f"has an offset that {zone.key} does not have then: the instant counts, which is {local} there"
        warnings.append(Fault("starts_at", f"{shown(text)} {message}", "leave the offset out to give the wall time"))
    if datetime.fromisoformat(text).microsecond:
        warnings.append(Fault("starts_at", "has a fraction of a second, which is left out", "give whole seconds"))
    return tuple(warnings)


def _parsed(text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
        if FIRST_YEAR <= given.year <= LAST_YEAR and len("2026-07-06") < len(text) <= LONGEST:
            return given.replace(microsecond=0)
    except ValueError as error:
        raise ScheduleError.at("starts_at", f"{shown(text)!r} is no date and time", _EXAMPLE) from error
    raise ScheduleError.at(
        "starts_at", f"{shown(text)!r} is no date with a time from {FIRST_YEAR} to {LAST_YEAR}", _EXAMPLE
    )
