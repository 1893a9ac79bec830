"""A schedule as somebody gives it, read into values: every fault with its path, oddities as warnings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from loops.definition.findings import UNDECLARED, Findings, join, nearest, shown, suggestion
from loops.definition.plain import plain_object
from loops.errors import Fault, ScheduleError
from loops.event import JsonValue
from loops.runs.variables import MOST_BYTES, size_of
from loops.schedules.cron import CronWalls
from loops.schedules.recurrence import DAYS, read_rrule
from loops.schedules.refusal import never
from loops.schedules.start import read_start, start_warnings
from loops.schedules.timetable import Timetable, Timing, timetable
from loops.schedules.wall_clock import zone_of

CatchUp = Literal["none", "last", "all"]
CATCH_UPS: Final[tuple[CatchUp, ...]] = get_args(CatchUp)

KEYS: Final = ("rrule", "cron", "starts_at", "timezone", "variables", "catch_up")
SHAPES: Mapping[str, str] = {
    "hourly": "FREQ=HOURLY;INTERVAL=1",
    "daily": "FREQ=DAILY;INTERVAL=1",
    "weekdays": "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR",
    "weekly": "FREQ=WEEKLY;INTERVAL=1;BYDAY=<MO..SU>",
    "once": "FREQ=DAILY;COUNT=1",
}
"""How often a loop may run, and the rule of each. The time of day is that of the start."""

_WEEKLY = tuple(SHAPES["weekly"].replace("<MO..SU>", day) for day in DAYS)
_LOOP_RULES = frozenset({*SHAPES.values(), *_WEEKLY} - {SHAPES["weekly"]})
_SHORTEST_MONTH = 28


@dataclass(frozen=True, slots=True)
class Draft:
    """A schedule that can be stored. `first` is its next occurrence, None where nobody asked."""

    timing: Timing
    variables: Mapping[str, JsonValue]
    catch_up: CatchUp
    first: datetime | None
    warnings: tuple[Fault, ...] = ()


def read_draft(
    given: Mapping[str, JsonValue], now: datetime | None, *, of_loop: bool, declared: Collection[str] | None = None
) -> Draft:
    """The schedule that an object describes; a loop may have fewer. With `now`, it must have an occurrence after that.
    `declared` are the variables of its workflow, None where nobody asks. Raises ScheduleError with every fault."""
    faults = _Faults()
    for key in given:
        if key not in KEYS:
            faults.add(Fault(key[:60], "is no part of a schedule", suggestion(key[:60], KEYS)))
    texts = {key: faults.text(given, key) for key in ("rrule", "cron", "starts_at", "timezone")}
    timing = Timing(texts["timezone"] or "UTC", texts["rrule"], texts["cron"], texts["starts_at"])
    catch_up = faults.of(lambda: _catch_up(given.get("catch_up", "last")))
    variables = faults.of(lambda: _variables(given.get("variables", {})))
    faults.of(lambda: _inspect_kind(timing, of_loop=of_loop))
    zone = faults.of(lambda: zone_of(timing.timezone))
    starts_at, rrule, cron = timing.starts_at, timing.rrule, timing.cron
    if starts_at is not None:
        faults.of(lambda: read_start(starts_at, zone or zone_of("UTC")))
    if rrule is not None:
        faults.of(lambda: read_rrule(rrule))
    if cron is not None:
        faults.of(lambda: CronWalls(cron))
    faults.settle()
    table = timetable(timing)
    first = None if now is None else table.next_after(now)
    if now is not None and first is None:
        raise never("cron" if rrule is None else "rrule")
    warnings = _warnings(timing, table, of_loop=of_loop)
    if declared is not None:
        warnings += tuple(_undeclared(variables or {}, declared))
    return Draft(timing, variables or {}, catch_up or "last", first, warnings)


class _Faults:
    """What was found wrong so far."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Of one place the first fault is told: what follows is its echo."""
        if fault.path not in [one.path for one in self._found]:
            self._found.append(fault)

    def of(self, read: Callable[[], Any]) -> Any:  # noqa: ANN401 - what is read
        """What is read, None where it is at fault."""
        try:
            return read()
        except ScheduleError as error:
            for fault in error.faults:
                self.add(fault)
            return None

    def text(self, given: Mapping[str, JsonValue], key: str) -> str | None:
        """A text that may be left out."""
        value = given.get(key)
        if value is None or isinstance(value, str):
            return value
        self.add(Fault(key, "is no text", 'in quotes, as "2026-07-06T09:00:00"'))
        return None

    def settle(self) -> None:
        if self._found:
            raise ScheduleError(self._found)


def _catch_up(value: JsonValue) -> CatchUp:
    for one in CATCH_UPS:
        if value == one:
            return one
    raise ScheduleError.at(
        "catch_up", "says what becomes of runs that were missed", f"one of {', '.join(CATCH_UPS)}; last by default"
    )


def _variables(value: JsonValue) -> dict[str, JsonValue]:
    findings = Findings()
    variables = plain_object(value, findings)
    if findings.faults:
        fault = findings.faults[0]
        raise ScheduleError.at("variables", f"cannot be taken: {fault.message}", 'an object, as {"customer": "acme"}')
    size = size_of(variables)
    if size > MOST_BYTES:
        raise ScheduleError.at("variables", f"take {size} bytes as JSON; {MOST_BYTES} is the limit", "shorten them")
    return variables


def _inspect_kind(timing: Timing, *, of_loop: bool) -> None:
    if (timing.rrule is None) == (timing.cron is None):
        path, what = ("rrule", "is missing") if timing.rrule is None else ("cron", "does not go together with rrule")
        raise ScheduleError.at(path, what, "give rrule and starts_at, or cron")
    if timing.rrule is not None and timing.starts_at is None:
        raise ScheduleError.at("starts_at", "is missing", "the first run, as 2026-07-06T09:00:00+02:00")
    if of_loop and timing.rrule not in _LOOP_RULES:
        known = "; ".join(f"{name}: {rule}" for name, rule in SHAPES.items())
        path = "cron" if timing.rrule is None else "rrule"
        raise ScheduleError.at(path, "a loop has one of five rules, as they stand", known)


def _warnings(timing: Timing, table: Timetable, *, of_loop: bool) -> tuple[Fault, ...]:
    if timing.starts_at is None or table.start is None:
        return ()
    warnings = list(start_warnings(timing.starts_at, table.zone))
    wall = table.start.wall
    if of_loop and timing.rrule == SHAPES["hourly"] and (wall.minute or wall.second):
        shown = wall.strftime("%H:%M")
        warnings.append(Fault("starts_at", f"an hourly loop usually begins at a full hour; this one at {shown}"))
    if timing.rrule is not None:
        warnings += _short_months(timing.rrule, wall)
    return tuple(warnings)


def _undeclared(given: Iterable[str], declared: Collection[str]) -> Iterator[Fault]:
    """Variables that are kept although the workflow has none of the name."""
    for key in given:
        if key not in declared:
            hint = nearest(key, sorted(declared)) or "declare it in the workflow's variables, or leave it out"
            yield Fault(join("variables", shown(key)), "is none of the workflow's variables", hint, UNDECLARED)


def _short_months(text: str, start: datetime) -> list[Fault]:
    """A day that not every month or year has is left out there, as RFC 5545 wants it; few expect that."""
    rule = read_rrule(text)
    days = rule.by.get("BYMONTHDAY", () if rule.days or rule.by.keys() & {"BYYEARDAY", "BYWEEKNO"} else (start.day,))
    late = [day for day in days if day > _SHORTEST_MONTH]
    if rule.frequency == "MONTHLY" and late:
        message = f"months without a day {late[-1]} are left out"
        return [Fault("rrule", message, "BYMONTHDAY=-1 is the last day of every month")]
    leap = rule.frequency == "YEARLY" and late == [29] and rule.by.get("BYMONTH", (start.month,)) == (2,)
    return [Fault("rrule", "years without a 29 February are left out")] if leap else []
