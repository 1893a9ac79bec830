"""Three schedulers on one Postgres, killed with -9 and replaced while schedules fire: each occurrence exactly once.

200 schedules are due in each of some seconds; SCHEDULE_SECONDS=60 makes it a minute.
"""

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import sqlalchemy as sa

from loops.runs.engine import EngineClient
from loops.store import schedules as store
from loops.store.database import Database, open_database
from loops.store.ids import new_id
from loops.store.schedule_tables import occurrences
from loops.store.schedules import ScheduleRow
from loops.store.tables import runs
from loops.store.workflows import WorkflowRow
from loops.workflows import Workflows
from tests.acceptance.victims import died, free_port, start
from tests.integration.almanac import PROJECT, SCHEDULED, MovedClock
from tests.integration.running import eventually
from tests.integration.serving import workflow

pytestmark = [pytest.mark.asyncio, pytest.mark.postgres, pytest.mark.timeout(600)]

SECONDS = int(os.environ.get("SCHEDULE_SECONDS", "5"))
EACH = 200
PROCESSES = 3


def due_in(flow: WorkflowRow, begin: datetime) -> Iterator[ScheduleRow]:
    """Hourly schedules, so many due for the first time in each second."""
    for second in range(SECONDS):
        due = begin + timedelta(seconds=second)
        for _ in range(EACH):
            yield ScheduleRow(
                id=new_id(),
                project_id=PROJECT,
                workflow_id=flow.id,
                rrule="FREQ=HOURLY;INTERVAL=1",
                cron=None,
                starts_at=due.isoformat(),
                timezone="Europe/Berlin",
                variables={},
                catch_up="all",
                status="active",
                next_due=due,
                idle_since=None,
                fault="",
                created_at=begin,
                updated_at=begin,
            )


async def stored(database: Database, rows: list[ScheduleRow]) -> None:
    def put(connection: sa.Connection) -> None:
        for row in rows:
            store.insert(connection, row)

    await database.writer.run(put)


async def count(database: Database, table: sa.Table) -> int:
    query = sa.select(sa.func.count()).select_from(table)
    return await database.reader.read(lambda connection: connection.execute(query).scalar_one())


async def killing(processes: list[BaseProcess], folder: Path, url: str, until: datetime) -> int:
    """Kill one of the processes after the other, each replaced, as long as schedules fall due; how many."""
    chance, killed = random.Random(8), 0
    while datetime.now(UTC) < until:
        await asyncio.sleep(chance.uniform(0.3, 1.2))
        victim = processes.pop(0)
        victim.kill()
        assert await died(victim) == -signal.SIGKILL
        processes.append(start(folder, url, free_port(), "scheduler"))
        killed += 1
    return killed


async def test_each_occurrence_fires_once_whatever_number_of_schedulers_run_and_die(
    tmp_path: Path, postgres_url: str
) -> None:
    database = await asyncio.to_thread(open_database, postgres_url)
    processes = [start(tmp_path, postgres_url, free_port(), "scheduler") for _ in range(PROCESSES)]
    client = EngineClient(postgres_url)
    try:
        flow = (await _workflows(database).create(PROJECT, workflow("busy", SCHEDULED), "ada")).row
        begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2 + SECONDS / 10)
        rows = list(due_in(flow, begin))
        await stored(database, rows)
        killed = await killing(processes, tmp_path, postgres_url, begin + timedelta(seconds=SECONDS))
        assert killed >= 3
        await eventually(lambda: count(database, occurrences), lambda found: found >= len(rows), 60 + 4 * SECONDS)
        # Those that look again find nothing.
        await asyncio.sleep(2.5)
        await _each_once(database, client, rows)
    finally:
        for one in processes:
            one.kill()
            await died(one)
        await client.aclose()
        await database.aclose()


def _workflows(database: Database) -> Workflows:
    return Workflows(database.writer, database.reader, MovedClock())


async def _each_once(database: Database, client: EngineClient, rows: list[ScheduleRow]) -> None:
    decided = await database.reader.read(lambda connection: connection.execute(sa.select(occurrences)).all())
    assert sorted((one.schedule_id, one.due_at) for one in decided) == sorted((row.id, row.next_due) for row in rows)
    assert {one.outcome for one in decided} <= {"ran", "late"}
    started = await database.reader.read(lambda connection: connection.execute(sa.select(runs.c.id)).scalars().all())
    assert sorted(started) == sorted(one.run_id for one in decided)
    assert len(set(started)) == len(rows)
    segments = [(run, 0) for run in started]
    for begin in range(0, len(segments), 1000):
        some = segments[begin : begin + 1000]
        assert set(await client.statuses(some)) == set(some)
    left = await database.reader.read(store.earliest_due)
    assert left is not None
    assert left > datetime.now(UTC)
