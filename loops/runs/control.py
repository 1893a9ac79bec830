"""What people do to a run: cancel it, resume it."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from loops.errors import Conflict, StoreBusy
from loops.event import JsonValue
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.settling import Stop, nothing_to_stop
from loops.runs.state import OVER
from loops.runs.succession import run_ended
from loops.store import run_queries, run_requests, threads
from loops.store.run_requests import CancelRequest
from loops.tasks.thread.live import Stopped as ThreadStop
from loops.tasks.thread.live import TaskThreads

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("loops.runs")

_AT_ONCE = 50
"""How many runs of a workflow are cancelled in one transaction."""
_CANCEL_PATIENCE = 5.0
_CANCEL_POLL = 0.1
# What a person may cut short; everything else wakes its run itself, once it has really happened.
_RESUMED_BY_PEOPLE = frozenset({"timer", "approval", "event"})


@dataclass(frozen=True, slots=True)
class Stopped:
    """Runs that were cancelled, and those that were asked to stop and still act."""

    cancelled: int = 0
    stopping: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What asking for a cancellation came to: for the run, None where that is over, and for its threads."""

    run: CancelRequest | None
    threads: ThreadStop

    @property
    def is_done(self) -> bool:
        return self.threads != "acting" and (self.run is None or self.run.status != "running")


class RunControl:
    """Works from any process: what it asks is stored first, the process that acts follows."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        stop: Stop = nothing_to_stop,
        threads: TaskThreads | None = None,
    ) -> None:
        """`stop` stops what a waiting run waits for, `threads` are those that its tasks answer in after it."""
        self._threads = threads
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._clock = clock
        self._stop = stop

    async def cancel(self, project_id: str, run_id: str) -> str:
        """The status after asking: `cancelled` once nothing acts any more, or `running` while something still does.
        A run that is over is cancelled in as far as a task of it still has a thread.

        Raises NotFound or Conflict (the run is over, and so is all that it began).
        """
        await self._reader.read(lambda connection: run_queries.get(connection, project_id, run_id))
        asked = await self._writer.run(lambda connection: self._ask(connection, run_id))
        if asked.run is not None and asked.run.status != "running":
            await self._engine.drop(run_id, asked.run.seq)
        if asked.is_done:
            return "cancelled"
        return await self._until_stopped(project_id, run_id, threads_alone=asked.run is None)

    async def close_threads(self, project_id: str, run_id: str) -> str:
        """Cancel what the tasks of a run still do in their threads, and not the run: as `cancel`."""
        asked = await self._writer.run(lambda connection: _Asked(None, self._close(connection, run_id)))
        return "cancelled" if asked.is_done else await self._until_stopped(project_id, run_id, threads_alone=True)

    def _ask(self, connection: "Connection", run_id: str) -> "_Asked":
        try:
            run = self._ask_run(connection, run_id)
        except Conflict:
            closed = self._close(connection, run_id)
            if closed == "none":
                raise
            return _Asked(None, closed)
        return _Asked(run, self._close(connection, run_id))

    def replace(self, connection: "Connection", run_id: str, reason: str, now: datetime) -> bool:
        """Cancel a run in whose place another one comes, in the caller's transaction: whether it acts until it has
        noticed. Nobody is let begin by it: the one that comes takes its turn."""
        try:
            acts = run_requests.request_cancel(connection, run_id, now, self._stop, reason).status == "running"
        except Conflict:
            acts = False  # over already
        self._close(connection, run_id)
        return acts

    def _ask_run(self, connection: "Connection", run_id: str) -> CancelRequest:
        now = self._clock.now()
        asked = run_requests.request_cancel(connection, run_id, now, self._stop)
        if asked.status == "cancelled":
            run_ended(connection, self._engine, run_id, now)
        return asked

    def _close(self, connection: "Connection", run_id: str) -> ThreadStop:
        return "none" if self._threads is None else self._threads.cancel(connection, run_id)

    async def _until_stopped(self, project_id: str, run_id: str, *, threads_alone: bool = False) -> str:
        """Until nothing acts any more: also a waiting run acts when what it waits for does."""
        deadline = asyncio.get_running_loop().time() + _CANCEL_PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_CANCEL_POLL)
            status, acts = await self._reader.read(partial(self._standing, project_id=project_id, run_id=run_id))
            if not acts and (threads_alone or status in OVER):
                return "cancelled" if threads_alone else status
        return "running"

    def _standing(self, connection: "Connection", project_id: str, run_id: str) -> tuple[str, bool]:
        acts = self._threads is not None and self._threads.acts(connection, run_id)
        return str(run_queries.get(connection, project_id, run_id)["status"]), acts

    async def cancel_all(self, workflow_id: str) -> Stopped:
        """Cancel every open run of a workflow, and wait a little for those that act."""
        acting: list[str] = []
        cancelled = 0
        while asked := await self._writer.run(lambda connection: self._ask_some(connection, workflow_id)):
            for run_id, request in asked.items():
                if request.status == "running":
                    acting.append(run_id)
                else:
                    cancelled += 1
                    await self._engine.drop(run_id, request.seq)
        while self._threads is not None and await self._writer.run(partial(self._close_some, workflow_id=workflow_id)):
            pass
        left = await self._until_over(acting)
        return Stopped(cancelled + len(acting) - len(left), tuple(left))

    def _close_some(self, connection: "Connection", workflow_id: str) -> bool:
        """Close some threads of a workflow; whether there was one."""
        found = threads.runs_with_live(connection, workflow_id, _AT_ONCE)
        return sum(self._close(connection, run_id) != "none" for run_id in found) > 0

    def _ask_some(self, connection: "Connection", workflow_id: str) -> "Mapping[str, CancelRequest]":
        return {
            run_id: self._ask_run(connection, run_id)
            for run_id in run_requests.held_to_cancel(connection, workflow_id, _AT_ONCE)
        }

    async def _until_over(self, run_ids: list[str]) -> list[str]:
        """Those that still act when patience ends."""
        left = run_ids
        deadline = asyncio.get_running_loop().time() + _CANCEL_PATIENCE
        while left and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_CANCEL_POLL)
            left = await self._reader.read(partial(run_requests.still_open, run_ids=left))
        return left

    async def resume(self, project_id: str, run_id: str, payload: Mapping[str, JsonValue]) -> None:
        """Wake a waiting run now. Raises NotFound, or Conflict when it does not wait (any more)."""
        row = await self._reader.read(lambda connection: run_queries.get(connection, project_id, run_id))
        if row["status"] != "waiting":
            raise Conflict(f"run {run_id} is {row['status']}; only a waiting run can be resumed")
        if (kind := (row["wait"] or {}).get("kind")) not in _RESUMED_BY_PEOPLE:
            raise Conflict(f"run {run_id} waits for a {kind} and goes on when that has ended", hint="cancel it to stop")
        now = self._clock.now()
        seq = await self._writer.run(lambda connection: run_requests.wake(connection, run_id, payload, now))
        try:
            await self._engine.wake(run_id, seq)
        except StoreBusy as error:  # the sweeper makes it due
            log.warning("resumed run waits for the sweeper: %s", error.message, extra={"run_id": run_id})
