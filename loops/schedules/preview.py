"""The next occurrences of a schedule as people look at them: with local times, and where clocks change."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from loops.schedules.timetable import Occurrence, Timetable
from loops.schedules.wall_clock import first_instant, is_doubled, wall_of

MOST = 100

Mark = Literal["skipped", "doubled", "changed"]


@dataclass(frozen=True, slots=True)
class Previewed:
    """One occurrence; `local` is in the schedule's zone. `mark` says that clocks change: the rule's time is `skipped`
    and the occurrence moved on, the clock shows it `doubled`, or the offset `changed` since the one before; `note` says
    it in words."""

    at: datetime
    local: datetime
    mark: Mark | None = None
    note: str = ""


def preview(table: Timetable, after: datetime, most: int) -> list[Previewed]:
    """The next occurrences, at most so many: those that will start runs, by the same function."""
    return list(itertools.islice(_previewed(table, after), most))


def _previewed(table: Timetable, after: datetime) -> Iterator[Previewed]:
    before = after.astimezone(table.zone).utcoffset()
    for one in table.after(after):
        local = one.at.astimezone(table.zone)
        mark, note = _marked(one, local, table, before)
        before = local.utcoffset()
        yield Previewed(one.at, local, mark, note)


def _marked(one: Occurrence, local: datetime, table: Timetable, before: timedelta | None) -> tuple[Mark | None, str]:
    shown = local.strftime("%H:%M")
    if one.wall != wall_of(one.at, table.zone):
        return "skipped", f"clocks go forward: {one.wall:%H:%M} does not exist that day, so it is {shown}"
    if is_doubled(one.wall, table.zone):
        which = "first" if first_instant(one.wall, table.zone) == one.at else "second"
        return "doubled", f"clocks go back: {shown} comes twice, this is the {which}"
    if local.utcoffset() != before:
        return "changed", f"clocks have changed: the offset is now UTC{local:%z}"
    return None, ""
