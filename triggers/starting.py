"""Starting a run outside of dispatch: by hand, or of a delivery that is played again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.definition.brakes import stored_overlap
from loops.event import Event, Person, event_json
from loops.filters import ProjectFilters
from loops.packed import pack, unpack
from loops.ports import Engine
from loops.runs.state import RunState
from loops.store import runs as runs_store
from loops.store.deliveries import EventRow
from loops.store.runs import NewRun
from loops.store.workflows import WorkflowRow
from triggers.brakes import overlap_rule
from triggers.definitions import ReadRevision
from triggers.overlap_stage import FREE, Admitted, Starting
from triggers.run_ids import run_id
from triggers.verdict import Verdict

Begin: TypeAlias = Callable[[str, int, ProjectFilters, ReadRevision], RunState]
Writes: TypeAlias = Callable[[str, int, ProjectFilters, ReadRevision], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Start:
    """One run to start: of a workflow's current revision, for an event. `replay` is 0 for the first."""

    row: WorkflowRow
    event: Event
    state: RunState
    delivery_id: str | None = None
    replay: int = 0


def admission(connection: sa.Connection, starting: Starting, row: WorkflowRow, event: Event, now: datetime) -> Admitted:
    """What the workflow's overlap policy makes of an event that has not started a run; the other brakes hold for
    deliveries alone. Raises RowHeld while another process is deciding on the same key, and DefinitionError."""
    rule = overlap_rule(stored_overlap(row.definition))
    return FREE if rule is None else starting.admitted(connection, row.id, rule, event_json(event), now)


def start_run(
    connection: sa.Connection, starting: Starting, start: Start, now: datetime, admitted: Admitted = FREE
) -> str:
    """Insert a run that was admitted and put its first segment into the queue, as part of the caller's transaction; its
    id."""
    run = _new_run(start)
    starting.begin(connection, run, admitted, now)
    return run.id


def start_runs(connection: sa.Connection, engine: Engine, starts: Sequence[Start], now: datetime) -> None:
    """The same of several that nobody started before, and that no overlap policy counts."""
    new = [_new_run(start) for start in starts]
    runs_store.insert_all(connection, new, now)
    for run in new:
        engine.enqueue(connection, run.id, 0)


def _new_run(start: Start) -> NewRun:
    row, event = start.row, start.event
    return NewRun(
        id=run_id(event, row.project_id, row.id, start.replay),
        project_id=row.project_id,
        workflow_id=row.id,
        version=row.version,
        source=event.source,
        event_uuid=event.uuid,
        event_name=event.name,
        delivery_id=start.delivery_id,
        replay=start.replay,
        state=start.state,
    )


def undelivered(project_id: str, event: Event, verdict: Verdict) -> EventRow:
    """The row of an event that came in no delivery, with what was decided of it."""
    return EventRow(
        project_id=project_id,
        source=event.source,
        uuid=event.uuid,
        delivery_id="",
        position=0,
        name=event.name,
        verdicts=[verdict.as_json()],
        body=pack(event_json(event)),
    )


def event_of(stored: bytes) -> Event:
    """The event that was stored with a run: what `event_json` made of it."""
    found: Mapping[str, Any] = unpack(stored)
    person = found.get("person")
    return Event(
        uuid=found["uuid"],
        name=found["event"],
        source=found["source"],
        distinct_id=found["distinct_id"],
        timestamp=datetime.fromisoformat(found["timestamp"]),
        properties=found["properties"],
        subject=found.get("subject"),
        url=found.get("url"),
        person=None if person is None else Person(person["id"], person["name"], person["properties"]),
        groups=found.get("groups") or {},
        verified=found["verified"],
    )
