"""What is to be done about a schedule that is due: which occurrences run, which were missed, and when it is due next.

Pure: of a timetable, the occurrence that is due, the policy for what was missed (D17), and now.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from loops.schedules.draft import CatchUp
from loops.schedules.timetable import Timetable

Outcome: TypeAlias = Literal["ran", "late", "missed", "skipped", "refused"]

LATE_AFTER = timedelta(seconds=60)
"""What is claimed later than that after its time was missed, and counts as late if it still runs."""

MOST_AT_ONCE = 100
"""How many occurrences that were missed are caught up with, or told of, at once: the last ones."""


@dataclass(frozen=True, slots=True)
class Due:
    """One occurrence that is over: it is to start a run (`ran`, `late`), or was `missed`."""

    at: datetime
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The occurrences in their order, and the next one after now; None when the schedule is over."""

    occurrences: tuple[Due, ...]
    next_due: datetime | None


def plan(table: Timetable, next_due: datetime, catch_up: CatchUp, now: datetime) -> Plan:
    """What is to be done at `now` about a schedule whose occurrence `next_due` lies at or before that."""
    found = [next_due, *table.latest(next_due, now, MOST_AT_ONCE)][-MOST_AT_ONCE:]
    due = [_judged(at, catch_up, now, is_last=at == found[-1]) for at in found]
    return Plan(tuple(due), table.next_after(now))


def _judged(at: datetime, catch_up: CatchUp, now: datetime, *, is_last: bool) -> Due:
    late = now - at
    if late <= LATE_AFTER:
        return Due(at, "ran")
    if catch_up == "all" or (catch_up == "last" and is_last):
        return Due(at, "late", f"nothing fired it in time: {_span(late)} late")
    policy = "only the last one that was missed is made good" if catch_up == "last" else "what was missed is left out"
    return Due(at, "missed", f"nothing fired it in time; {policy} (catch_up: {catch_up})")


def _span(late: timedelta) -> str:
    minutes = int(late.total_seconds() // 60)
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    told = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    return " ".join(told)
