"""The durable engine: DBOS Transact keeps which segments and tasks are due, parked or in flight; we keep what they did.

A segment is one DBOS workflow `advance(run, seq)` without DBOS steps of its own: the run's row, claimed and guarded
by an owner, is its checkpoint (ADR 0002). What is used of DBOS: enqueue inside our transaction, delayed rows, the
bounded queue, one dequeue by exactly one worker, and recovery of what a dead worker held.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
from sqlalchemy.exc import DBAPIError

from loops.store import sqlite
from loops.store.database import is_sqlite
from loops.store.outage import busy

log = logging.getLogger("loops.engine")

RUNS_QUEUE = "runs"
TASKS_QUEUE = "tasks"
_WORKFLOW = "advance"
_TASK_WORKFLOW = "work"
# Constant: a run is taken up by whatever release is there; the workflow only interprets stored plans.
_VERSION = "1"
_NAME = "loops"
_POLL_SECONDS = 0.2

T = TypeVar("T")
Advance = Callable[[str, int, str], Awaitable[None]]
"""What acts for (id, seq) as `owner`."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How many segments and tasks one process works on at once."""

    runs: int = 8
    tasks: int = 4


def prepare_engine(url: str) -> None:
    """Create or migrate the engine's own tables. Blocks."""
    _quiet()
    engine, dbos_url = _engine_for(url, pool_size=2)
    engine.dispose()
    DBOS.migrate(dbos_url)


def _quiet() -> None:
    logging.getLogger("dbos").setLevel(logging.WARNING)


def _engine_for(url: str, *, pool_size: int) -> tuple[sa.Engine, str]:
    if is_sqlite(url):
        # The run's row is FULL; an engine row lost with the power is found missing and made again by the sweeper.
        options = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": 60}
        return sqlite.connect(url, synchronous="NORMAL", begin="at write", **options), url
    plain = sa.make_url(url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(plain, pool_size=pool_size, max_overflow=0, pool_pre_ping=True)
    return engine, plain.set(drivername="postgresql").render_as_string(hide_password=False)


class EngineClient:
    """Starts, parks, wakes and drops segments from any process; runs none. Fills the Engine port."""

    def __init__(self, url: str, *, pool_size: int = 4) -> None:
        _quiet()
        self._engine, _ = _engine_for(url, pool_size=pool_size)
        self._client = DBOSClient(
            system_database_engine=self._engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=_NAME,
            lazy=True,
            retry_connection_errors=False,  # a caller who is told can do better than wait
        )
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="loops-engine")

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        """See Engine.enqueue."""
        options: EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": RUNS_QUEUE,
            "workflow_id": segment_id(run_id, seq),
        }
        if delay > 0:
            options["delay_seconds"] = delay
        self._client.enqueue_in_transaction(connection, options, run_id, seq)

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        """See Engine.enqueue_task."""
        options: EnqueueOptions = {
            "workflow_name": _TASK_WORKFLOW,
            "queue_name": TASKS_QUEUE,
            "workflow_id": segment_id(task_place(task_id), seq),
        }
        self._client.enqueue_in_transaction(connection, options, task_id, seq)

    async def wake(self, run_id: str, seq: int) -> None:
        """See Engine.wake."""
        segment = segment_id(run_id, seq)
        await self.call(lambda: self._client.set_workflow_delay(segment, delay_seconds=0))

    async def drop(self, run_id: str, seq: int) -> None:
        """See Engine.drop."""
        segment = segment_id(run_id, seq)
        await self.call(lambda: self._client.cancel_workflow(segment))

    async def statuses(self, segments: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The engine's status of each segment that it knows."""
        ids = {segment_id(run_id, seq): (run_id, seq) for run_id, seq in segments}
        if not ids:
            return {}
        found = await self.call(
            lambda: self._client.list_workflows(workflow_ids=list(ids), load_input=False, load_output=False)
        )
        return {ids[one.workflow_id]: one.status for one in found}

    async def holders(self) -> set[str]:
        """The executors that hold a segment now, dead or alive."""
        found = await self.call(
            lambda: self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        )
        return {one.executor_id for one in found if one.executor_id}

    async def forget(self, *, before: datetime, most: int = 500) -> int:
        """Delete engine rows of segments that ended before then; how many. The runs keep their own record."""
        found = await self.call(
            lambda: self._client.list_workflows(
                status=["SUCCESS", "ERROR", "CANCELLED"],
                completed_before=before.astimezone(UTC).isoformat(),
                limit=most,
                load_input=False,
                load_output=False,
            )
        )
        ids = [one.workflow_id for one in found]
        if ids:
            await self.call(lambda: self._client.delete_workflows(ids))
        return len(ids)

    async def call(self, fn: Callable[[], T]) -> T:
        """Run a blocking call of the engine on this client's own threads. Raises StoreBusy."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, fn)
        except (DBAPIError, sa.exc.TimeoutError) as error:
            raise busy(error) from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self.call(self._client.destroy)
        self._threads.shutdown(wait=False)
        self._engine.dispose()


class EngineHost:
    """Works on segments and tasks in this process. DBOS allows one a process."""

    def __init__(self, url: str, advance: Advance, work: Advance, limits: EngineLimits) -> None:
        self.executor_id = f"loops-{uuid.uuid4()}"
        self._url = url
        self._limits = limits
        self._advance = advance
        self._work = work
        self._engine: sa.Engine | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="loops-engine-host")

    async def launch(self) -> None:
        """Begin to take segments from the queues."""
        _quiet()
        self._engine, dbos_url = _engine_for(self._url, pool_size=self._limits.runs + self._limits.tasks + 8)
        config: DBOSConfig = {
            "name": _NAME,
            "system_database_url": dbos_url,
            "system_database_engine": self._engine,
            "application_version": _VERSION,
            "executor_id": self.executor_id,
            "serializer": DBOSPortableJSONSerializer(),
            "console_log_level": "WARNING",
            "log_level": "WARNING",
            "use_listen_notify": False,
            "run_migrations": False,  # prepare_engine did
        }
        DBOS(config=config)
        advance, work, executor = self._advance, self._work, self.executor_id

        @DBOS.workflow(name=_WORKFLOW)
        async def advance_segment(run_id: str, seq: int) -> None:
            await advance(run_id, seq, f"{executor}:{uuid.uuid4()}")

        @DBOS.workflow(name=_TASK_WORKFLOW)
        async def work_on_task(task_id: str, seq: int) -> None:
            await work(task_id, seq, f"{executor}:{uuid.uuid4()}")

        DBOS.listen_queues([RUNS_QUEUE, TASKS_QUEUE])
        DBOS.launch()
        for name, limit in ((RUNS_QUEUE, self._limits.runs), (TASKS_QUEUE, self._limits.tasks)):
            await DBOS.register_queue_async(
                name, worker_concurrency=limit, polling_interval_sec=_POLL_SECONDS, on_conflict="always_update"
            )

    async def recover(self, dead: Collection[str]) -> int:
        """Queue again what these executors held. Idempotent; any number of processes may do it at once.

        DBOS keeps this call private (its paid part uses the same contract): the release is pinned and the takeover
        is held by a test that kills a worker.
        """
        if not dead:
            return 0
        found = await self._call(lambda: DBOS._recover_pending_workflows(sorted(dead)))  # noqa: SLF001
        if found:
            log.warning("recovered segments of dead workers", extra={"count": len(found), "workers": sorted(dead)})
        return len(found)

    async def aclose(self, drain: timedelta) -> None:
        """Take no more segments, give those in flight `drain` to end, and stop."""
        seconds = int(drain.total_seconds())
        await self._call(lambda: DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=seconds))
        self._threads.shutdown(wait=False)
        if self._engine is not None:
            self._engine.dispose()

    async def _call(self, fn: Callable[[], Any]) -> Any:  # noqa: ANN401
        return await asyncio.get_running_loop().run_in_executor(self._threads, fn)


def segment_id(run_id: str, seq: int) -> str:
    """The engine's id of a segment."""
    return f"{run_id}:{seq}"


def task_place(task_id: str) -> str:
    """What stands for a run's id in the engine's id of a task's place in the queue."""
    return f"task:{task_id}"
