"""What a crash can leave between our tables and the engine's, and how it is mended."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.ports import Engine
from loops.runs.engine import segment_id
from loops.runs.sweeper import Sweeper
from loops.store import run_requests
from loops.store.runs import MOST_RESTARTS
from server.app import Wiring
from tests.integration.running import Running, Told, delay_action, issue, log_action, running, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Ahead:
    """A clock that goes before the others, so that what is new looks old."""

    def __init__(self) -> None:
        self.by = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    wiring = Wiring(steps=Told().among)
    async with running(tmp_path_factory.mktemp("service"), module_database_url, wiring=wiring) as started:
        yield started


@pytest.fixture
def ahead() -> Ahead:
    return Ahead()


@pytest.fixture
def sweeper(service: Running, ahead: Ahead) -> Sweeper:
    """A sweeper of the test's own; the service's sweeps beside it, on the true time."""
    services, client = service.services, service.service._client
    return Sweeper(services.writer, services.reader, client, services.engine, ahead)


async def waiting(service: Running, name: str, duration: str = "1h") -> str:
    flow = await service.create(
        workflow(name, delay_action("pause", duration), log_action("after", "x"), repository=f"acme/{name}")
    )
    run_id = await service.started(flow.id, issue(f"acme/{name}"))
    await service.until(run_id, "waiting")
    return run_id


async def lose(service: Running, run_id: str, seq: int) -> None:
    """The engine knows nothing of the segment any more."""
    client = service.service._client
    await client.call(lambda: client._client.delete_workflows([segment_id(run_id, seq)]))


async def test_a_run_that_was_woken_and_not_made_due_goes_on_within_a_sweep(service):
    run_id = await waiting(service, "woken")
    await service.write(lambda connection: run_requests.wake(connection, run_id, {"by": "ada"}, datetime.now(UTC)))
    await service.until(run_id, "completed")
    assert (await service.steps(run_id))[0]["result"]["resumed_early"] is True


async def test_a_run_whose_segment_the_engine_lost_gets_a_new_one(service, sweeper, ahead):
    run_id = await waiting(service, "lost")
    await service.write(lambda connection: run_requests.wake(connection, run_id, {}, datetime.now(UTC)))
    await lose(service, run_id, 1)
    assert (await service.run(run_id))["status"] == "queued"
    ahead.by = timedelta(minutes=1)
    assert await sweeper.sweep() >= 1
    await service.until(run_id, "completed")
    row = await service.row(run_id)
    assert (row["seq"], row["restarts"]) == (2, 1)
    assert [step["step_id"] for step in await service.steps(run_id)] == ["pause", "after", "exit"]


async def test_a_run_whose_time_came_while_the_engine_had_lost_it_gets_a_new_segment(service, sweeper, ahead):
    run_id = await waiting(service, "overdue")
    await lose(service, run_id, 1)
    ahead.by = timedelta(minutes=30)
    await sweeper.sweep()
    assert (await service.row(run_id))["restarts"] == 0  # it has half an hour left
    ahead.by = timedelta(minutes=61)
    await sweeper.sweep()
    await service.until(run_id, "completed")
    assert (await service.steps(run_id))[0]["result"]["resumed_early"] is False


async def test_a_run_that_the_engine_still_has_is_left_alone(service, sweeper, ahead):
    run_id = await waiting(service, "alive")
    flow = await service.create(workflow("busy", log_action("long", "!sleep 3"), repository="acme/busy"))
    busy = await service.started(flow.id, issue("acme/busy"))
    await service.until(busy, "running")
    ahead.by = timedelta(hours=2)
    await sweeper.sweep()
    for one in (run_id, busy):
        assert (await service.row(one))["restarts"] == 0
    await service.until(busy, "completed")
    await service.services.runs.resume("default", run_id, {})
    await service.until(run_id, "completed")


async def test_a_run_whose_segments_are_lost_again_and_again_is_given_up_and_says_why(service, sweeper, ahead):
    run_id = await waiting(service, "again")
    for number in range(MOST_RESTARTS):
        await lose(service, run_id, number + 1)
        ahead.by += timedelta(hours=2)
        await _without_slots(service, sweeper)
        row = await service.row(run_id)
        assert (row["status"], row["seq"], row["restarts"]) == ("waiting", number + 2, number + 1)
    await lose(service, run_id, MOST_RESTARTS + 1)
    ahead.by += timedelta(hours=2)
    await sweeper.sweep()
    row = await service.row(run_id)
    assert (row["status"], row["restarts"]) == ("failed", MOST_RESTARTS)
    assert "interrupted" in row["reason"]
    assert [(step["step_id"], step["status"]) for step in await service.steps(run_id)] == [("pause", "failed")]


async def _without_slots(service: Running, sweeper: Sweeper) -> None:
    """Sweep while no worker takes what the sweeper queues."""
    sweeper._engine = _Parking(service.services.engine)
    await sweeper.sweep()
    sweeper._engine = service.services.engine


class _Parking:
    """An engine whose segments are never due."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        self._engine.enqueue(connection, run_id, seq, delay=3600.0)

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        raise AssertionError("no task is created here")

    async def wake(self, run_id: str, seq: int) -> None:
        raise AssertionError("no run was woken here")

    async def drop(self, run_id: str, seq: int) -> None:
        raise AssertionError("no run is cancelled here")


async def test_what_needs_mending_is_found_behind_many_runs_that_are_well(service, sweeper, ahead, monkeypatch):
    monkeypatch.setattr("loops.store.runs.PAGE", 2)
    flow = await service.create(workflow("many", delay_action("pause", "1h"), repository="acme/many"))
    ids = [await service.started(flow.id, issue("acme/many")) for _ in range(5)]
    for run_id in ids:
        await service.until(run_id, "waiting")
    last = max(ids)
    await lose(service, last, 1)
    ahead.by = timedelta(hours=2)
    mended = [await sweeper.sweep() for _ in range(4)]
    assert sorted(mended) == [0, 0, 0, 1]
    assert {run_id for run_id in ids if (await service.row(run_id))["restarts"]} == {last}
    for run_id in ids:
        if run_id != last:
            await service.services.runs.cancel("default", run_id)
