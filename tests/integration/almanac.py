"""Workflows with schedules on a real database, whose clock a test moves and whose engine notes what it is asked for."""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from loops.event import Event
from loops.scheduling import SavedSchedule, Schedules
from loops.store import schedules as store
from loops.store.database import Database
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.tables import events, runs
from loops.store.workflows import WorkflowRow
from loops.workflows import Workflows
from tests.integration.serving import workflow
from triggers.schedule.claim import Occurrences
from triggers.starting import event_of

T = TypeVar("T")
PROJECT = "default"
SCHEDULED: dict[str, Any] = {"type": "schedule"}
MONDAY = datetime(2026, 6, 15, 8, 30, tzinfo=UTC)


class MovedClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = MONDAY

    def now(self) -> datetime:
        return self.time


class Queue:
    """The engine, as far as starting goes. It breaks over runs of the workflow `broken`."""

    def __init__(self) -> None:
        self.queued: list[str] = []
        self.broken = ""

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        if self.broken:
            query = sa.select(runs.c.workflow_id).where(runs.c.id == run_id)
            if connection.execute(query).scalar() == self.broken:
                raise RuntimeError("this run breaks the engine")
        self.queued.append(run_id)

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        raise AssertionError(f"nothing begins the task {task_id}")

    async def wake(self, run_id: str, seq: int) -> None:
        raise AssertionError(f"nothing wakes {run_id}")

    async def drop(self, run_id: str, seq: int) -> None:
        raise AssertionError(f"nothing drops {run_id}")


class Almanac:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock, self.queue = MovedClock(), Queue()
        self.schedules = Schedules(database.writer, database.reader, self.clock)
        self.workflows = Workflows(database.writer, database.reader, self.clock, schedules=self.schedules)
        self.occurrences = self.another()

    def another(self) -> Occurrences:
        """What another process would look for occurrences with."""
        return Occurrences(self.database.writer, self.database.reader, self.queue, self.clock)

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.database.writer.run(fn)

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.database.reader.read(fn)

    async def workflow(
        self, status: str = "active", trigger: Mapping[str, Any] = SCHEDULED, **more: Any
    ) -> WorkflowRow:
        document = workflow(f"w {uuid.uuid4().hex}", SCHEDULED, status=status, **more)
        return (await self.workflows.create(PROJECT, document, "ada")).row

    async def schedule(self, flow: WorkflowRow, **given: Any) -> ScheduleRow:
        """A schedule of a workflow: hourly from long ago, unless another one is given."""
        return (await self.created(flow, **given)).row

    async def created(self, flow: WorkflowRow, **given: Any) -> SavedSchedule:
        if "cron" not in given:
            given = {"rrule": "FREQ=HOURLY;INTERVAL=1", "starts_at": "2026-01-01T00:00:00Z", **given}
        return await self.schedules.create(PROJECT, flow.id, given)

    async def at(self, moment: str | timedelta) -> int:
        """Look at a moment (or so much later); how many schedules were due."""
        if isinstance(moment, timedelta):
            self.clock.time += moment
        else:
            read = datetime.fromisoformat(moment)
            self.clock.time = read if read.tzinfo else read.replace(tzinfo=UTC)
        return await self.occurrences.claim()

    async def row(self, schedule: ScheduleRow) -> ScheduleRow:
        return await self.read(lambda connection: store.get(connection, PROJECT, schedule.id))

    async def past(self, schedule: ScheduleRow) -> list[OccurrenceRow]:
        """What was decided, the earliest first."""
        return (await self.read(lambda connection: store.decided(connection, schedule.id, limit=1000)))[::-1]

    async def outcomes(self, schedule: ScheduleRow) -> list[str]:
        """What was decided as text: `06-15 09:00 ran`."""
        return [f"{one.due_at:%m-%d %H:%M} {one.outcome}" for one in await self.past(schedule)]

    async def counted(self, schedule: ScheduleRow) -> dict[str, int]:
        return dict(Counter(one.outcome for one in await self.past(schedule)))

    async def runs_of(self, flow: WorkflowRow) -> list[Mapping[str, Any]]:
        query = sa.select(runs).where(runs.c.workflow_id == flow.id).order_by(runs.c.created_at)
        return await self.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])

    async def event(self, run: Mapping[str, Any]) -> Event:
        """The event that a run was started for."""
        query = sa.select(events.c.body).where(events.c.uuid == run["event_uuid"], events.c.source == run["source"])
        return event_of(await self.read(lambda connection: connection.execute(query).scalar_one()))
