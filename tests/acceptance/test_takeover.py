"""A worker that is killed, or sleeps as the dead do: another takes over its run, with the leases of the product."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from loops.store.tables import leases, run_steps
from tests.acceptance.victims import Victim, died, free_port, prepare, start
from tests.integration.running import eventually, issue, log_action, workflow

pytestmark = [pytest.mark.asyncio, pytest.mark.postgres]


@asynccontextmanager
async def crew(folder: Path, url: str) -> AsyncIterator[tuple[Victim, list[BaseProcess]]]:
    """A web process and two workers, with leases as the product has them; the run's step waits for a file."""
    step = log_action("held", f"!until {folder / 'go'}")
    hook = await prepare(folder, url, workflow("held", step, log_action("after", "done")))
    victim = Victim(folder, url, hook, free_port())
    victim.process = start(folder, url, victim.port, "web", hasty=False)
    workers = [start(folder / f"worker-{n}", url, 0, "worker", hasty=False) for n in range(2)]
    try:
        yield victim, workers
    finally:
        for worker in workers:
            worker.kill()
            await died(worker)
        await victim.end()


async def held_by(victim: Victim, key: str) -> int:
    """The process that works on the run of a delivery now, 0 for none."""
    (run,) = await victim.of(key)
    executor = (run["owner"] or "").split(":")[0]
    found = await victim.found(sa.select(leases.c.pid).where(leases.c.executor_id == executor))
    return int(found[0]["pid"]) if found else 0


async def taken(victim: Victim, key: str) -> int:
    """The process that took the run of a delivery that was just sent."""
    await eventually(lambda: victim.of(key), lambda found: found and found[0]["status"] == "running")
    return await held_by(victim, key)


async def test_a_killed_workers_run_is_taken_over_within_twenty_seconds(postgres_url, tmp_path):
    async with crew(tmp_path, postgres_url) as (victim, workers):
        key = str(uuid.uuid4())
        await victim.accepted(issue(), key)
        dead = await taken(victim, key)
        (other,) = [worker.pid for worker in workers if worker.pid != dead]
        os.kill(dead, signal.SIGKILL)
        killed = time.monotonic()
        await eventually(lambda: held_by(victim, key), lambda pid: pid == other, patience=20)
        print(f"taken over {time.monotonic() - killed:.1f} s after the kill")
        (tmp_path / "go").touch()
        await finished(victim, key)


async def test_a_worker_that_comes_back_after_its_run_was_taken_over_changes_nothing(postgres_url, tmp_path):
    async with crew(tmp_path, postgres_url) as (victim, workers):
        key = str(uuid.uuid4())
        await victim.accepted(issue(), key)
        asleep = await taken(victim, key)
        (other,) = [worker.pid for worker in workers if worker.pid != asleep]
        os.kill(asleep, signal.SIGSTOP)
        await eventually(lambda: held_by(victim, key), lambda pid: pid == other, patience=20)
        (tmp_path / "go").touch()
        await finished(victim, key)
        before = await everything(victim, key)
        os.kill(asleep, signal.SIGCONT)  # its step ends now as well
        await asyncio.sleep(3)
        assert await everything(victim, key) == before


async def finished(victim: Victim, key: str) -> None:
    await eventually(lambda: victim.of(key), lambda found: found[0]["status"] == "completed")
    _, steps = await everything(victim, key)
    assert [(row["step_id"], row["status"]) for row in steps] == [
        ("held", "completed"),
        ("after", "completed"),
        ("exit", "completed"),
    ]


async def everything(victim: Victim, key: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (run,) = await victim.of(key)
    query = sa.select(run_steps).where(run_steps.c.run_id == run["id"]).order_by(run_steps.c.position)
    return run, await victim.found(query)
