"""Mends what a crash can leave between our tables and the engine's.

1. A run that was woken, but whose segment was not made due: make it due.
2. A run that is open, while the engine has no segment of it, or one that ended badly: give it a new segment.
3. A run whose segments keep dying: end it as failed, and say so.
4. The same for tasks and their turns, whose places in the queue are lost or die as segments do.
5. Failures that nobody was told of for an hour: tell them.
6. A run that waits for others of its key, none of which acts: let it begin.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.alerting import Alerting, tell_what_is_due
from loops.runs.engine import EngineClient, task_place
from loops.runs.interpreter import Interpreter
from loops.runs.succession import let_next_begin, run_ended
from loops.store import overlaps, run_requests
from loops.store import runs as store
from loops.store import tasks as task_store
from loops.store import threads as thread_store
from loops.tasks.ending import give_up_task
from loops.tasks.thread.live import TaskThreads

log = logging.getLogger("loops.sweeper")

EVERY_SECONDS = 5.0
CANCEL_SECONDS = 0.5
_WOKEN = timedelta(seconds=2)
_STILL = timedelta(seconds=30)
_ALIVE = frozenset({"ENQUEUED", "PENDING", "DELAYED"})
_DIES = "interrupted: its worker died again and again at the same step"
_EXHAUSTED = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"


class Sweeper:
    """One sweep every five seconds; any number of processes may sweep."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        client: EngineClient,
        engine: Engine,
        clock: Clock,
        alerting: Alerting | None = None,
        threads: TaskThreads | None = None,
    ) -> None:
        self._threads = threads
        self._writer = writer
        self._reader = reader
        self._client = client
        self._engine = engine
        self._clock = clock
        self._alerting = alerting
        self._after_task = ""
        self._after = ""  # the sweep goes round by run id, so that a long queue never hides what lies behind it

    async def forever(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.sweep()
            except StoreBusy as error:
                log.warning("sweep put off: %s", error.message)

    async def sweep(self) -> int:
        """How many runs were mended."""
        now = self._clock.now()
        woken = await self._reader.read(lambda connection: store.woken(connection, before=now - _WOKEN))
        for run_id, seq in woken:
            await self._engine.wake(run_id, seq)
        after = self._after
        found = await self._reader.read(lambda connection: store.quiet(connection, since=now - _STILL, after=after))
        self._after = found[-1][0] if len(found) == store.PAGE else ""
        statuses = await self._client.statuses(found)
        mended = len(woken) + await self._sweep_tasks() + await self._sweep_turns() + await self._sweep_overlaps()
        if self._alerting is not None:
            await tell_what_is_due(self._alerting, self._writer, self._reader, self._clock)
        for run_id, seq in found:
            mended += await self._mend(run_id, seq, statuses.get((run_id, seq)))
        return mended

    async def _mend(self, run_id: str, seq: int, status: str | None) -> int:
        if status in _ALIVE:
            return 0
        if status != _EXHAUSTED and await self._writer.run(lambda connection: self._restart(connection, run_id, seq)):
            log.warning("run had no segment in the engine; it has a new one", extra={"run_id": run_id, "was": status})
            return 1
        if await self._writer.run(lambda connection: self._give_up(connection, run_id, seq)):
            log.error("run given up", extra={"run_id": run_id, "reason": _DIES})
        return 1

    def _give_up(self, connection: sa.Connection, run_id: str, seq: int) -> bool:
        ended = store.give_up(connection, run_id, seq, _DIES, self._clock.now())
        if ended:
            run_ended(connection, self._engine, run_id, self._clock.now())
        if ended and self._alerting is not None:
            self._alerting.given_up(connection, run_id, _DIES)
        return ended

    def _restart(self, connection: sa.Connection, run_id: str, seq: int) -> bool:
        fresh = store.restart_segment(connection, run_id, seq, self._clock.now())
        if fresh is not None:
            self._engine.enqueue(connection, run_id, fresh)
        return fresh is not None

    async def _sweep_overlaps(self) -> int:
        """Runs that another release ended do not let the next begin."""
        stale = await self._reader.read(overlaps.stale)
        forgotten = await self._reader.read(overlaps.forgotten)
        if not stale and not forgotten:
            return 0

        def mend(connection: sa.Connection) -> int:
            now = self._clock.now()
            for run_id in stale:
                run_ended(connection, self._engine, run_id, now)
            return len(stale) + sum(let_next_begin(connection, self._engine, place, now) for place in forgotten)

        return await self._writer.run(mend)

    async def _sweep_tasks(self) -> int:
        now = self._clock.now()
        after = self._after_task
        found = await self._reader.read(
            lambda connection: task_store.quiet(connection, since=now - _STILL, after=after)
        )
        self._after_task = found[-1][0] if len(found) == store.PAGE else ""
        statuses = await self._client.statuses([(task_place(task_id), seq) for task_id, seq in found])
        return sum([
            await self._mend_task(task_id, seq, statuses.get((task_place(task_id), seq))) for task_id, seq in found
        ])  # fmt: skip

    async def _mend_task(self, task_id: str, seq: int, status: str | None) -> int:
        if status in _ALIVE:
            return 0
        if status != _EXHAUSTED and await self._writer.run(lambda at: self._restart_task(at, task_id, seq)):
            log.warning("task had no place in the engine; it has a new one", extra={"task_id": task_id, "was": status})
            return 1
        woken = await self._writer.run(lambda connection: self._give_up_task(connection, task_id, seq))
        if woken is not None:
            log.error("task given up", extra={"task_id": task_id})
            await self._engine.wake(*woken)
        return 1

    def _give_up_task(self, connection: sa.Connection, task_id: str, seq: int) -> tuple[str, int] | None:
        return give_up_task(connection, task_id, seq, self._clock.now(), self._threads)

    async def _sweep_turns(self) -> int:
        """The same for later turns of tasks in their threads."""
        threads, since = self._threads, self._clock.now() - _STILL
        if threads is None:
            return 0
        found = await self._reader.read(lambda connection: thread_store.quiet_turns(connection, since=since))
        statuses = await self._client.statuses([(task_place(task_id), seq) for task_id, seq in found])
        mended = 0
        for task_id, seq in found:
            status = statuses.get((task_place(task_id), seq))
            if status not in _ALIVE:
                again = status != _EXHAUSTED
                await self._writer.run(partial(threads.mend_turn, task_id=task_id, seq=seq, again=again))
                log.warning("a turn of a task had lost its place", extra={"task_id": task_id, "was": status})
                mended += 1
        return mended

    def _restart_task(self, connection: sa.Connection, task_id: str, seq: int) -> bool:
        fresh = task_store.restart(connection, task_id, seq, self._clock.now())
        if fresh is not None:
            self._engine.enqueue_task(connection, task_id, fresh)
        return fresh is not None


async def watch_cancellations(
    interpreter: Interpreter, reader: Reader, *, sleep: Callable[[float], "asyncio.Future[None]"] | None = None
) -> None:
    """Stop runs of this process that somebody asked to cancel, within a second, whichever process was asked."""
    while True:
        await (sleep or asyncio.sleep)(CANCEL_SECONDS)
        active = interpreter.active
        if not active:
            continue
        try:
            asked = await reader.read(lambda connection, ids=active: run_requests.cancel_requests(connection, ids))  # type: ignore[misc]
        except StoreBusy as error:
            log.warning("cannot look for cancellations: %s", error.message)
            continue
        for run_id in asked:
            interpreter.stop_run(run_id)
