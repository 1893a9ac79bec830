"""Deliveries that two processes play again at once, on Postgres."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from loops.store.tables import runs
from tests.integration import running as whole
from tests.integration.running import PROJECT, eventually, issue, log_action

pytestmark = [pytest.mark.asyncio, pytest.mark.postgres]

_REPLAY = """
import asyncio, json, sys
from pathlib import Path
from server.app import Service, Wiring
from tests.integration.running import PROJECT, settings_for

folder, url, delivery, workflow, way = sys.argv[1:]

async def main():
    service = Service(settings_for(Path(folder), url), "web", Wiring(dispatching=False))
    try:
        await service.open()
        replays = service.services.replays
        print("ready", flush=True)
        sys.stdin.readline()
        if way == "one":
            told = [one for _ in range(10) for one in await replays.delivery(PROJECT, delivery, workflow)]
        else:
            now = service.services.clock.now()
            told = (await replays.missed(PROJECT, workflow, (now.replace(year=now.year - 1), now))).items
        print(json.dumps([one.replay for one in told]))
    finally:
        await service.stop()

asyncio.run(main())
"""


async def two_processes(folder: Path, url: str, delivery: str, flow: str, way: str) -> list[list[int]]:
    """The numbers that each of two processes got, which begin at the same moment."""

    def both() -> list[list[int]]:
        command = [sys.executable, "-c", _REPLAY, str(folder), url, delivery, flow, way]
        place = Path(__file__).parents[2]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes = [subprocess.Popen(command, text=True, cwd=place, **pipes) for _ in range(2)]  # type: ignore[call-overload]
        for one in processes:
            assert one.stdout.readline() == "ready\n"
        for one in processes:
            one.stdin.write("go\n")
            one.stdin.flush()
        told = [one.communicate(timeout=60)[0] for one in processes]
        assert [one.returncode for one in processes] == [0, 0]
        return [json.loads(text) for text in told]

    return await asyncio.to_thread(both)


async def test_replays_of_two_processes_at_once_get_numbers_without_gap_or_double(
    tmp_path: Path, postgres_url: str
) -> None:
    async with whole.running(tmp_path, postgres_url) as service:
        flow = (await service.create(whole.workflow("both", log_action("note", "noted")))).id
        delivery = (await service.post(issue()))["delivery"]
        await service.settled(delivery)
        numbers = await two_processes(tmp_path, postgres_url, delivery, flow, "one")
        assert sorted(numbers[0] + numbers[1]) == list(range(1, 21))
        found = await eventually(lambda: service.runs(flow), lambda rows: len(rows) == 21)
        assert len({run["id"] for run in found}) == 21


async def test_two_processes_that_play_the_same_period_again_start_each_delivery_once(
    tmp_path: Path, postgres_url: str
) -> None:
    async with whole.running(tmp_path, postgres_url) as service:
        for number in range(20):
            await service.settled((await service.post(issue(number=number)))["delivery"])
        flow = (await service.create(whole.workflow("late", log_action("note", "noted")))).id
        numbers = await two_processes(tmp_path, postgres_url, "", flow, "all")
        started = [number for part in numbers for number in part]
        assert started == [1] * 20
        found = await service.read(
            lambda connection: connection.execute(sa.select(runs.c.id).where(runs.c.project_id == PROJECT)).all()
        )
        assert len(found) == 20
