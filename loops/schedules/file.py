"""Schedules as a workflow's file holds them, beside its definition: `schedules: [{rrule, starts_at, timezone}, …]`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loops.definition.findings import join
from loops.errors import Fault, ScheduleError
from loops.event import JsonValue
from loops.schedules.draft import KEYS, Draft, read_draft
from loops.schedules.timetable import Timing

SCHEDULES = "schedules"
MOST = 50
"""How many schedules a workflow may have."""

_STATUSES = ("active", "paused", "completed")
# What a server tells of a schedule beside what somebody gave: taken, so that it can be sent back, and dropped.
_TOLD = frozenset(
    {
        "id", "workflow", "workflow_id", "workflow_name", "workflow_status", "when", "next_run_at", "next_local",
        "fault", "created_at", "updated_at", "created_by", "team_id",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule of a file; two with the same timing are the same. `path` is where it stands."""

    path: str
    draft: Draft
    status: str

    @property
    def timing(self) -> Timing:
        return self.draft.timing

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is odd about it, with its place in the file."""
        return tuple(replace(one, path=f"{self.path}.{one.path}") for one in self.draft.warnings)


def split(document: JsonValue) -> tuple[JsonValue, JsonValue]:
    """A document without its schedules, and those; None where it says nothing about them."""
    if not isinstance(document, dict) or SCHEDULES not in document:
        return document, None
    return {key: value for key, value in document.items() if key != SCHEDULES}, document[SCHEDULES]


def read_entries(given: JsonValue, *, of_loop: bool, declared: Collection[str] | None = None) -> tuple[Entry, ...]:
    """The schedules of a file. Whether they still have a future is not asked: one that is over is kept as it is.
    `declared` are the variables of their workflow, None where nobody asks. Raises ScheduleError with every fault."""
    if not isinstance(given, list):
        raise ScheduleError.at(SCHEDULES, "is no list", "as [{rrule: FREQ=DAILY;INTERVAL=1, starts_at: …}]")
    if len(given) > MOST:
        raise ScheduleError.at(SCHEDULES, f"has {len(given)} entries; a workflow has at most {MOST}", "leave some out")
    entries: list[Entry] = []
    faults: list[Fault] = []
    for index, one in enumerate(given):
        path = join(SCHEDULES, index)
        try:
            entry = _read(one, path, of_loop=of_loop, declared=declared)
        except ScheduleError as error:
            faults += [Fault(f"{path}.{fault.path}".rstrip("."), fault.message, fault.hint) for fault in error.faults]
            continue
        if any(other.timing == entry.timing for other in entries):
            faults.append(Fault(path, "stands twice", "two schedules of a workflow differ in when they occur"))
        entries.append(entry)
    if faults:
        raise ScheduleError(faults)
    return tuple(entries)


def _read(given: JsonValue, path: str, *, of_loop: bool, declared: Collection[str] | None) -> Entry:
    if not isinstance(given, dict):
        raise ScheduleError.at("", "is no object", "as {rrule: FREQ=DAILY;INTERVAL=1, starts_at: …}")
    status = given.get("status", "active")
    if status not in _STATUSES:
        raise ScheduleError.at("status", "is none that a schedule has", f"one of {', '.join(_STATUSES)}")
    kept = {key: value for key, value in given.items() if key != "status" and key not in _TOLD}
    return Entry(path, read_draft(kept, None, of_loop=of_loop, declared=declared), str(status))


def as_entry(told: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule that a server told of, as a file holds it: without what is the server's, or as good as left out."""
    kept = {key: told[key] for key in KEYS if told.get(key)}
    return {**kept, "status": told["status"]} if told["status"] != "active" else kept
