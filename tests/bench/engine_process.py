"""The processes that engine.py measures, each on a database of its own; they do what is read from standard input.

ours URL FOLDER     the product: segments of runs, interpreted, each step stored before the next
bare URL            DBOS alone: a workflow of twenty DBOS steps, with the same settings of queue and database
"""

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
import uvloop
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions

from loops.event import Event, JsonValue, event_json
from loops.packed import pack
from loops.runs.engine import RUNS_QUEUE, EngineLimits, _engine_for, prepare_engine
from loops.runs.state import RunState, Wait
from loops.runs.step import Step, StepContext, StepOutcome
from loops.store import deliveries, run_queries
from loops.store import runs as store
from loops.store.deliveries import EventRow
from loops.store.runs import NewRun
from server.app import Wiring
from tests.integration.running import PROJECT, Running, delay_action, issue, log_action, running, workflow

STEPS_A_RUN = 20
Command = Callable[[int], Awaitable[Mapping[str, float]]]


class Noting:
    """A step that notes when it began."""

    def __init__(self) -> None:
        self._inner: Step = self
        self.began: dict[str, float] = {}
        self.waiting: dict[str, asyncio.Event] = {}

    def among(self, steps: Mapping[str, Step]) -> Mapping[str, Step]:
        """The steps with this one in place of `function`."""
        self._inner = steps["function"]
        return {**steps, "function": self}

    async def run(self, context: StepContext) -> StepOutcome:
        if context.run_id in self.waiting and context.action.id == "after":
            self.began[context.run_id] = time.perf_counter()
            self.waiting[context.run_id].set()
        return await self._inner.run(context)

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        return await self._inner.resume(context, wait, wake)


class Ours:
    """The product and what is asked of it."""

    def __init__(self, service: Running, noting: Noting, flows: Mapping[str, str]) -> None:
        self._service = service
        self._noting = noting
        self._flows = flows
        self._parked: list[str] = []
        self.commands: Mapping[str, Command] = {
            "steps": self.steps,
            "park": self.park,
            "idle": self.idle,
            "one by one": self.wake_one_by_one,
            "burst": self.wake_burst,
        }

    @property
    def _completed(self) -> float:
        return float(self._service.services.metrics.runs.labels("completed")._value.get())

    async def steps(self, count: int) -> Mapping[str, float]:
        """Runs of twenty steps, all queued at once, until the last is over."""
        wanted = self._completed + count
        begun = time.perf_counter()
        await self._start("steps", "s1", count)
        while self._completed < wanted:  # noqa: ASYNC110 - a metric has no event
            await asyncio.sleep(0.01)
        return {"seconds": time.perf_counter() - begun}

    async def park(self, count: int) -> Mapping[str, float]:
        """Runs that come to wait for an hour."""
        begun = time.perf_counter()
        for _ in range(0, count, 500):
            self._parked += await self._start("parks", "pause", min(500, count))
        counts = {"waiting": 0}
        while counts.get("waiting", 0) < len(self._parked):
            await asyncio.sleep(0.5)
            counts = await self._service.read(run_queries.counts)
        return {"seconds": time.perf_counter() - begun, "held": len(await self._service.service._client.holders())}

    async def idle(self, seconds: int) -> Mapping[str, float]:
        """How much of a core the process takes while nothing happens."""
        before = time.process_time()
        await asyncio.sleep(seconds)
        return {"share": (time.process_time() - before) / seconds}

    async def wake_one_by_one(self, count: int) -> Mapping[str, float]:
        return _percentiles([await self._woken(self._parked.pop()) for _ in range(count)])

    async def wake_burst(self, count: int) -> Mapping[str, float]:
        return _percentiles(await asyncio.gather(*(self._woken(self._parked.pop()) for _ in range(count))))

    async def _woken(self, run_id: str) -> float:
        """The time from asking for a run to go on until its next step begins."""
        self._noting.waiting[run_id] = asyncio.Event()
        asked = time.perf_counter()
        await self._service.services.runs.resume(PROJECT, run_id, {})
        await self._noting.waiting[run_id].wait()
        return self._noting.began[run_id] - asked

    async def _start(self, flow: str, first: str, count: int) -> list[str]:
        ids = [str(uuid.uuid4()) for _ in range(count)]
        await self._service.write(lambda connection: self._insert(connection, self._flows[flow], first, ids))
        return ids

    def _insert(self, connection: sa.Connection, flow: str, first: str, ids: list[str]) -> None:
        now = datetime.now(UTC)
        for run_id in ids:
            name, source = "$github_event_received", "github"
            event = Event(run_id, name, source, "ada", now, properties=issue())
            row = EventRow(PROJECT, source, run_id, "", 0, name, [], pack(event_json(event)))
            deliveries.put_event(connection, row, now)
            state = RunState(first)
            store.insert(connection, NewRun(run_id, PROJECT, flow, 1, source, run_id, name, None, 0, state), now)
            self._service.services.engine.enqueue(connection, run_id, 0)


def _percentiles(delays: list[float]) -> Mapping[str, float]:
    ordered = sorted(delays)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}


@asynccontextmanager
async def ours(url: str, folder: Path) -> AsyncIterator[Mapping[str, Command]]:
    noting = Noting()
    async with running(folder, url, wiring=Wiring(steps=noting.among)) as service:
        many = [log_action(f"s{number}", "step {event.properties.action}") for number in range(1, STEPS_A_RUN + 1)]
        documents = {
            "steps": workflow("steps", *many, status="draft"),
            "parks": workflow("parks", delay_action("pause", "1h"), log_action("after", "x"), status="draft"),
        }
        flows = {name: (await service.create(document)).id for name, document in documents.items()}
        yield Ours(service, noting, flows).commands


@asynccontextmanager
async def bare(url: str, _folder: Path) -> AsyncIterator[Mapping[str, Command]]:
    prepare_engine(url)
    limits = EngineLimits()
    engine, dbos_url = _engine_for(url, pool_size=limits.runs + 8)
    config: DBOSConfig = {
        "name": "bare",
        "system_database_url": dbos_url,
        "system_database_engine": engine,
        "application_version": "1",
        "serializer": DBOSPortableJSONSerializer(),
        "console_log_level": "ERROR",
        "log_level": "ERROR",
        "use_listen_notify": False,
    }
    DBOS(config=config)
    done = 0

    @DBOS.step()
    async def trivial(number: int) -> dict[str, str]:
        return {"text": f"step {number}"}

    @DBOS.workflow(name="twenty")
    async def twenty(_name: str) -> None:
        nonlocal done
        for number in range(STEPS_A_RUN):
            await trivial(number)
        done += 1

    DBOS.listen_queues([RUNS_QUEUE])
    DBOS.launch()
    await DBOS.register_queue_async(RUNS_QUEUE, worker_concurrency=limits.runs, polling_interval_sec=0.2)
    client = DBOSClient(
        system_database_engine=engine, serializer=DBOSPortableJSONSerializer(), application_name="bare", lazy=True
    )

    def enqueue(count: int) -> None:
        with engine.begin() as connection:
            for _ in range(count):
                name = str(uuid.uuid4())
                options: EnqueueOptions = {
                    "workflow_name": "twenty",
                    "queue_name": RUNS_QUEUE,
                    "workflow_id": name,
                }
                client.enqueue_in_transaction(connection, options, name)

    async def steps(count: int) -> Mapping[str, float]:
        wanted = done + count
        begun = time.perf_counter()
        await asyncio.to_thread(enqueue, count)
        while done < wanted:  # noqa: ASYNC110 - the same, so that both are watched alike
            await asyncio.sleep(0.01)
        return {"seconds": time.perf_counter() - begun}

    yield {"steps": steps}
    await asyncio.to_thread(lambda: DBOS.destroy(destroy_registry=True))
    engine.dispose()


async def main() -> None:
    kind, url, folder = sys.argv[1:]
    async with (ours if kind == "ours" else bare)(url, Path(folder)) as commands:
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            name, _, amount = line.rpartition(" ")
            print(json.dumps(await commands[name](int(amount))), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
