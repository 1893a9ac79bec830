"""Killed with -9 at every transition, on both databases, and started again: one run, each step once, one result."""

import asyncio
import multiprocessing
import os
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import postgres, sqlite
from loops.store.database import is_sqlite
from loops.store.tables import deliveries, leases, run_steps, runs
from server.app import Role, Wiring
from tests.acceptance import killer
from tests.conftest import empty_postgres
from tests.integration.running import delay_action, eventually, issue, log_action, running, signed, workflow

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]

# Forked from a process that has imported everything, so that a start costs what the service costs.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.acceptance.killer"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(folder: Path, url: str, port: int, role: Role = "all", *, hasty: bool = True) -> BaseProcess:
    given = (folder, url, port, role)
    process = _processes.Process(target=killer.serve, args=given, kwargs={"hasty": hasty}, daemon=True)
    process.start()
    return process


async def died(process: BaseProcess, patience: float = 30.0) -> int | None:
    async def exitcode() -> int | None:
        return process.exitcode

    return await eventually(exitcode, lambda code: code is not None, patience)


@dataclass
class Victim:
    """One service on one database, and the sender that delivers to it."""

    folder: Path
    url: str
    hook: int
    port: int
    process: BaseProcess | None = None
    engine: sa.Engine = field(init=False)

    def __post_init__(self) -> None:
        if is_sqlite(self.url):
            self.engine = sqlite.connect(self.url, synchronous="NORMAL", begin="DEFERRED")
        else:
            self.engine = postgres.connect(self.url)

    def begin(self) -> None:
        self.process = start(self.folder, self.url, self.port)

    async def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            await died(self.process)
        self.engine.dispose()

    async def died(self) -> None:
        assert self.process is not None
        assert await died(self.process) == -signal.SIGKILL

    async def call(self, path: str, *, data: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
        """The status of a POST, 0 when nobody answered."""
        address = f"http://127.0.0.1:{self.port}{path}"
        try:
            async with aiohttp.ClientSession() as client, client.post(address, data=data, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 0

    async def arm(self, point: str, nth: int) -> None:
        assert await eventually(lambda: self.call(f"/arm?point={point}&nth={nth}"), lambda status: status) == 200

    async def deliver(self, payload: Mapping[str, Any], key: str) -> int:
        """Send once."""
        body, headers = signed(payload, key)
        return await self.call(f"/hooks/github/{self.hook}", data=body, headers=headers)

    async def accepted(self, payload: Mapping[str, Any], key: str) -> None:
        """Send as a patient sender does: the same delivery, until it was answered."""
        await eventually(lambda: self.deliver(payload, key), lambda status: 200 <= status < 300)

    async def found(self, query: "sa.Select[Any]") -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    async def of(self, key: str) -> list[dict[str, Any]]:
        """The runs of a delivery."""
        join = runs.join(deliveries, deliveries.c.id == runs.c.delivery_id)
        return await self.found(sa.select(runs).select_from(join).where(deliveries.c.key == key))

    async def completed(self, key: str) -> None:
        """Exactly one run, with each step's row once and what a run that nothing happened to leaves."""
        await eventually(lambda: self.of(key), lambda found: found and found[0]["status"] not in OPEN)
        (run,) = await self.of(key)
        assert (run["status"], run["reason"], run["restarts"]) == ("completed", "done", 0)
        rows = await self.found(sa.select(deliveries).where(deliveries.c.key == key))
        assert [(row["status"], row["runs"], row["attempts"]) for row in rows] == [("dispatched", 1, 0)]
        steps = sa.select(run_steps).where(run_steps.c.run_id == run["id"]).order_by(run_steps.c.position)
        assert [told(row) for row in await self.found(steps)] == EXPECTED


OPEN = {"queued", "running", "waiting"}
EXPECTED = [
    ("first", "completed", {"text": "first Issue 1"}, ["first Issue 1"]),
    ("pause", "completed", False, ["waiting 1s", "the time is over"]),
    ("second", "completed", {"text": "second first Issue 1"}, ["second first Issue 1"]),
    ("exit", "completed", {"reason": "done"}, []),
]


def told(row: Mapping[str, Any]) -> tuple[Any, ...]:
    result = row["result"]["resumed_early"] if row["step_id"] == "pause" else row["result"]
    return row["step_id"], row["status"], result, [line["text"] for line in row["log"] or []]


async def prepare(folder: Path, url: str, *documents: Mapping[str, Any]) -> int:
    """The database with its workflows and the connection's id, from a process that ends in order."""
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as service:
        for document in documents:
            await service.create(document)
        return service.hook


LIFE = workflow(
    "a whole life",
    log_action("first", "first {event.properties.title}"),
    delay_action("pause", "1s"),
    log_action("second", "second {steps.first.text}"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victims(
    postgres_url_of_the_module: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Victim]]:
    """One on SQLite and one on Postgres."""
    made: list[Victim] = []
    for name, url in (("sqlite", ""), ("postgres", postgres_url_of_the_module)):
        folder = tmp_path_factory.mktemp(name)
        address = url or f"sqlite:///{folder / 'loops.db'}"
        made.append(Victim(folder, address, await prepare(folder, address, LIFE), free_port()))
        made[-1].begin()
    yield made
    for one in made:
        await one.end()


@pytest.fixture(scope="module")
def postgres_url_of_the_module(postgres_server: Any) -> Iterator[str]:
    with empty_postgres(postgres_server) as url:
        yield url


# In the order in which a delivery and its run pass them; the number says which passing. Between two of them nothing
# is stored that a third could find different.
POINTS = [
    ("receive:begin", 1),
    ("receive:end", 1),
    ("accept:after", 1),
    ("parse", 1),
    ("enqueue:before", 1),
    ("dispatch:inside", 1),
    ("dispatch:after", 1),
    ("claim:before", 1),
    ("claim:inside", 1),
    ("claim:after", 1),
    ("function:run:end", 1),
    ("record:inside", 1),
    ("record:after", 1),
    ("delay:run:end", 1),
    ("park:inside", 1),
    ("park:after", 1),
    ("claim:inside", 2),
    ("claim:after", 2),
    ("delay:resume:end", 1),
    ("record:inside", 2),
    ("record:after", 2),
    ("record:after", 3),
    ("exit:run:end", 1),
    ("finish:inside", 1),
    ("finish:after", 1),
]


@pytest.mark.parametrize(("point", "nth"), POINTS, ids=lambda value: str(value))
async def test_killed_at_any_point_a_delivery_becomes_one_run_with_each_step_once(victims, point, nth):
    await asyncio.gather(*(killed_at(victim, point, nth) for victim in victims))


async def killed_at(victim: Victim, point: str, nth: int) -> None:
    key, payload = str(uuid.uuid4()), issue()
    await victim.arm(point, nth)
    answered = await victim.deliver(payload, key)
    await victim.died()
    victim.begin()
    if not 200 <= answered < 300:
        await victim.accepted(payload, key)
    await victim.completed(key)


async def test_killed_while_it_waits_a_run_goes_on_when_its_time_has_come(victims):
    async def killed_in_its_wait(victim: Victim) -> None:
        key = str(uuid.uuid4())
        await victim.accepted(issue(), key)
        await eventually(lambda: victim.of(key), lambda found: found and found[0]["status"] == "waiting")
        assert victim.process is not None
        victim.process.kill()
        await victim.died()
        await asyncio.sleep(1.5)  # its time comes while nobody is there
        victim.begin()
        await victim.completed(key)

    await asyncio.gather(*(killed_in_its_wait(victim) for victim in victims))


async def test_killed_again_and_again_at_the_same_point_a_run_still_ends(victims):
    async def killed_thrice(victim: Victim) -> None:
        key = str(uuid.uuid4())
        await victim.arm("function:run:end", 1)
        await victim.accepted(issue(), key)
        await victim.died()
        for _ in range(2):
            victim.begin()
            await victim.arm("function:run:end", 1)
            await victim.died()
        victim.begin()
        await victim.completed(key)

    await asyncio.gather(*(killed_thrice(victim) for victim in victims))


async def test_after_all_that_there_is_one_run_for_each_delivery(victims):
    for victim in victims:
        found = await victim.found(sa.select(runs.c.delivery_id, runs.c.status))
        stored = await victim.found(sa.select(deliveries.c.id))
        assert sorted(run["delivery_id"] for run in found) == sorted(row["id"] for row in stored)
        assert {run["status"] for run in found} == {"completed"}


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
