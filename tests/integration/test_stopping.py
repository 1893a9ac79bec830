"""A service that stops, what it leaves, and what the next one makes of it."""

import asyncio
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from loops.errors import Conflict
from loops.runs import lease
from server.app import Service, Wiring
from tests.acceptance import killer
from tests.integration.running import Running, Told, issue, log_action, running, settings_for, workflow


def wiring() -> Wiring:
    return Wiring(steps=Told().among)


async def begun(service: Running, text: str) -> str:
    """The id of a run whose first step has begun."""
    flow = await service.create(workflow("stops", log_action("long", text), log_action("after", "x")))
    run_id = await service.started(flow.id, issue())
    await service.until(run_id, "running", "completed")
    return run_id


async def steps_of(service: Running, run_id: str) -> list[tuple[str, str]]:
    return [(row["step_id"], row["status"]) for row in await service.steps(run_id)]


WHOLE = [("long", "completed"), ("after", "completed"), ("exit", "completed")]


async def test_a_stopping_service_lets_what_runs_come_to_its_end(database_url, tmp_path):
    async with running(tmp_path, database_url, wiring=wiring(), drain_seconds="20") as service:
        run_id = await begun(service, "!sleep 1.5")
    async with running(tmp_path, database_url, role="web", wiring=Wiring(dispatching=False)) as service:
        assert (await service.run(run_id))["status"] == "completed"
        assert await steps_of(service, run_id) == WHOLE


async def test_what_could_not_end_in_time_is_taken_up_by_the_next_service(database_url, tmp_path):
    notes = tmp_path / "notes"
    async with running(tmp_path, database_url, wiring=wiring()) as service:
        run_id = await begun(service, f"!note {notes} 2")
    assert notes.read_text().count("\n") == 1
    async with running(tmp_path, database_url, wiring=wiring()) as service:
        assert (await service.run(run_id))["status"] in {"running", "completed"}
        assert (await service.until(run_id, "completed", "failed"))["status"] == "completed"
        assert await steps_of(service, run_id) == WHOLE
    assert notes.read_text().count("\n") == 2


async def test_a_service_that_stops_gives_back_everything_it_holds(database_url, tmp_path):
    before = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    async with running(tmp_path, database_url, wiring=wiring()) as service:
        await begun(service, "!sleep 60")
    await asyncio.sleep(0.1)
    left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} - before
    assert left == set()
    assert not (tmp_path / "service.json").exists()
    assert not (tmp_path / "loops.sock").exists()


async def test_a_start_that_fails_closes_what_it_had_opened(database_url, tmp_path):
    async with running(tmp_path / "one", database_url, role="web") as first:
        port = first.service.url.rpartition(":")[2]
        settings = settings_for(tmp_path / "two", database_url, port=port)
        second = Service(settings, "all", wiring())
        with pytest.raises(Exception, match="cannot listen"):
            await second.start()
        await second.stop()
        third = Service(settings_for(tmp_path / "two", database_url), "all", wiring())
        await third.start()
        await third.stop()


async def test_a_second_service_on_one_file_is_refused_and_harms_nothing(tmp_path):
    url = f"sqlite:///{tmp_path / 'loops.db'}"
    async with running(tmp_path / "one", url, wiring=wiring()) as first:
        second = Service(settings_for(tmp_path / "two", url), "all", wiring())
        with pytest.raises(Conflict, match="another process runs on") as refused:
            await second.start()
        assert "postgresql://" in refused.value.hint
        await second.stop()
        run_id = await begun(first, "hello")
        assert (await first.until(run_id, "completed", "failed"))["status"] == "completed"


@pytest.mark.postgres
async def test_nobody_takes_over_what_a_stopping_worker_still_runs(postgres_url, tmp_path, monkeypatch):
    """Its step takes longer than a lease lasts; a second worker would begin it again."""
    for name, seconds in (("TTL_SECONDS", 1.5), ("BEAT_SECONDS", 0.3), ("_SURRENDER_SECONDS", 30.0)):
        monkeypatch.setattr(lease, name, seconds)
    notes = tmp_path / "notes"
    other = _worker(tmp_path / "other", postgres_url)
    try:
        async with running(tmp_path, postgres_url, wiring=wiring(), drain_seconds="20") as service:
            run_id = await begun(service, f"!note {notes} 5")
            other.start()
        async with running(tmp_path, postgres_url, role="web", wiring=Wiring(dispatching=False)) as service:
            await service.until(run_id, "completed")
            assert await steps_of(service, run_id) == WHOLE
        assert notes.read_text().count("\n") == 1
    finally:
        other.kill()
        other.join()


def _worker(folder: Path, url: str) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.acceptance.preloaded"])
    return context.Process(target=killer.serve, args=(folder, url, 0, "worker"), kwargs={"hasty": True}, daemon=True)
