"""What one look decides, written down together: a thousand schedules may be due in one second.

Rows of one kind are stored by one statement. Of a workflow that has a start on the sheet already the sheet is stored
first, so whoever asks the database what runs of that workflow is told.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.event import Event
from loops.store import deliveries
from loops.store import schedules as store
from loops.store.deliveries import EventRow
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.workflows import WorkflowRow
from triggers.overlap_stage import Admitted, Starting
from triggers.run_ids import run_id
from triggers.schedule.plan import Due
from triggers.starting import Start, admission, start_run, start_runs, undelivered
from triggers.verdict import Verdict


@dataclass(slots=True)
class Sheet:
    """Decisions of one transaction that are not stored yet."""

    connection: sa.Connection
    starting: Starting
    now: datetime
    decided: list[OccurrenceRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    starts: dict[str, tuple[Start, Admitted]] = field(default_factory=dict)
    moves: list[dict[str, Any]] = field(default_factory=list)

    def decide(self, row: ScheduleRow, due: Due) -> None:
        """What becomes of an occurrence that starts nothing."""
        self.decided.append(OccurrenceRow(row.id, due.at, due.outcome, due.reason, None, self.now))

    def admission(self, workflow: WorkflowRow, event: Event) -> Admitted:
        """What the workflow's overlap policy makes of an occurrence. Raises RowHeld and DefinitionError."""
        if workflow.id in self.starts:
            self.store()
        return admission(self.connection, self.starting, workflow, event, self.now)

    def start(self, row: ScheduleRow, due: Due, start: Start, verdict: Verdict, admitted: Admitted) -> None:
        """An occurrence starts a run of its workflow."""
        if start.row.id in self.starts:
            self.store()
        run = run_id(start.event, row.project_id, start.row.id)
        self.decided.append(OccurrenceRow(row.id, due.at, due.outcome, due.reason, run, self.now))
        self.events.append(undelivered(row.project_id, start.event, verdict))
        self.starts[start.row.id] = (start, admitted)

    def move(self, row: ScheduleRow, next_due: datetime | None, status: str) -> None:
        """When the schedule is due next; None with the status `active` where it rests from now."""
        idle = self.now if next_due is None else None
        self.moves.append({"schedule": row.id, "due": next_due, "status": status, "idle": idle})

    def store(self) -> None:
        """Write down what stands on the sheet."""
        if self.decided:
            store.decide(self.connection, self.decided)
        if self.starts:
            deliveries.put_events(self.connection, self.events, self.now)
            self._start()
        if self.moves:
            store.move(self.connection, self.moves)
        self.decided, self.events, self.starts, self.moves = [], [], {}, []

    def _start(self) -> None:
        alike = [start for start, admitted in self.starts.values() if admitted.place is None]
        if alike:
            start_runs(self.connection, self.starting.engine, alike, self.now)
        for start, admitted in self.starts.values():
            if admitted.place is not None:
                start_run(self.connection, self.starting, start, self.now, admitted)
