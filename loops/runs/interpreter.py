"""Advances a run, segment by segment: execute a step, store what it came to, ask the pure core what follows.

A segment ends when the run parks or is over. Nothing here knows the durable engine: it calls `advance`, again after a
crash, and the claim on the run's row decides who may act.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from loops.errors import LoopsError, RunFenced, StoreBusy
from loops.event import JsonValue
from loops.ports import Clock, Engine, Writer
from loops.runs import trace
from loops.runs.program import Program
from loops.runs.state import (
    Cancelled,
    Ended,
    Failed,
    Finish,
    Outcome,
    Park,
    Parked,
    RunState,
    Succeeded,
    judged,
    next_effect,
    transition,
)
from loops.runs.step import Step, StepContext
from loops.store import runs as store
from loops.store.runs import Claimed, StepRow

log = logging.getLogger("loops.runs")

T = TypeVar("T")
# How long a segment holds on while the database does not answer, in seconds between tries; then the sweeper has it.
_PATIENCE = (0.1, 0.2, 0.5, 1, 2, 5, 10, 10, 10, 10, 10)


@dataclass(slots=True)
class _Segment:
    """One claimed stretch of a run."""

    claimed: Claimed
    owner: str
    program: Program
    results: dict[str, JsonValue]
    scope: Mapping[str, JsonValue]


@dataclass(slots=True)
class Observer:
    """Where the interpreter reports what it did; metrics and logs hang on it."""

    step_done: Callable[[str, str, float], None] = field(default=lambda _type, _status, _seconds: None)
    run_over: Callable[[str], None] = field(default=lambda _status: None)


class Interpreter:
    """Executes runs with the steps that it is given."""

    def __init__(
        self,
        writer: Writer,
        engine: Engine,
        clock: Clock,
        steps: Mapping[str, Step],
        load: Callable[[Claimed], Program],
        observer: Observer | None = None,
    ) -> None:
        self._writer = writer
        self._engine = engine
        self._clock = clock
        self._steps = steps
        self._load = load
        self._observer = observer or Observer()
        self._active: dict[str, asyncio.Task[Outcome] | None] = {}
        self._asked: set[str] = set()
        self._driving: set[asyncio.Task[Any]] = set()

    @property
    def active(self) -> list[str]:
        """The runs that act in this process now."""
        return list(self._active)

    def stop_run(self, run_id: str) -> None:
        """Stop what an active run is doing; it ends as cancelled once that has stopped."""
        if run_id not in self._active:
            return
        self._asked.add(run_id)
        task = self._active[run_id]
        if task is not None:
            task.cancel()

    async def advance(self, run_id: str, seq: int, owner: str) -> None:
        """Act for (run, seq) until it parks or is over. A stale or fenced segment changes nothing."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine that runs has one
        self._driving.add(task)
        try:
            await self._advance(run_id, seq, owner)
        finally:
            self._driving.discard(task)

    async def abandon(self) -> None:
        """Stop whatever still acts in this process. It is taken up elsewhere or later, from what was stored last."""
        driving = list(self._driving)
        for task in driving:
            task.cancel()
        await asyncio.gather(*driving, return_exceptions=True)

    async def _advance(self, run_id: str, seq: int, owner: str) -> None:
        now = self._clock.now()
        claimed = await self._write(lambda connection: store.claim(connection, run_id, seq, owner, now))
        if claimed is None:
            log.info("segment is stale", extra={"run_id": run_id, "seq": seq})
            return
        self._active[run_id] = None
        if claimed.cancel_requested:
            self._asked.add(run_id)
        try:
            await self._drive(claimed, owner)
        except RunFenced:
            log.warning("run was taken over by another worker", extra={"run_id": run_id, "seq": seq})
        finally:
            self._active.pop(run_id, None)
            self._asked.discard(run_id)

    async def _write(self, fn: Callable[[sa.Connection], T]) -> T:
        for pause in _PATIENCE:
            try:
                return await self._writer.run(fn)
            except StoreBusy as error:
                log.warning("waiting for the database: %s", error.message)
                await asyncio.sleep(pause)
        return await self._writer.run(fn)

    async def _drive(self, claimed: Claimed, owner: str) -> None:
        try:
            program = self._load(claimed)
        except LoopsError as error:
            await self._over(claimed, owner, claimed.state, None, Finish("failed", f"definition: {error.message}"))
            return
        results = dict(claimed.results)
        segment = _Segment(claimed, owner, program, results, program.scope(claimed))
        state, wait = claimed.state, claimed.wait
        while True:
            effect = Finish("cancelled", "cancelled on request") if self._is_asked(claimed) else next_effect(state)
            if isinstance(effect, Finish):
                await self._over(claimed, owner, state, None, effect)
                return
            if isinstance(effect, Park):
                return
            following = await self._step(segment, state, effect.action, resume=wait is not None)
            if following is None:
                return
            state, wait = following, None

    def _is_asked(self, claimed: Claimed) -> bool:
        return claimed.run_id in self._asked

    async def _step(self, segment: _Segment, state: RunState, action_id: str, *, resume: bool) -> RunState | None:
        """Execute one action and store the outcome. The state to go on with, None when the segment is over."""
        claimed, started = segment.claimed, self._clock.now()
        lines = trace.StepLog(self._clock)
        came = trace.storable_outcome(await self._execute(segment, state, action_id, lines, resume=resume))
        came = judged(segment.program, state, came)
        after, effect = transition(segment.program, state, came)
        now = self._clock.now()
        row = self._row(segment, state, action_id, came, lines, started, now)
        kind = segment.program.action(action_id).type
        self._observer.step_done(kind, row.status, (now - started).total_seconds())
        if isinstance(effect, Park):
            await self._write(lambda connection: self._park(connection, segment, after, row, effect, now))
            return None
        if isinstance(effect, Finish):
            await self._over(claimed, segment.owner, after, row, effect)
            return None
        segment.results[action_id] = row.result
        asked = await self._write(
            lambda connection: store.record(connection, claimed.run_id, claimed.seq, segment.owner, after, row, now)
        )
        if asked:
            self._asked.add(claimed.run_id)
        return after

    def _park(
        self, connection: sa.Connection, segment: _Segment, state: RunState, row: StepRow, effect: Park, now: datetime
    ) -> None:
        claimed = segment.claimed
        store.park(connection, claimed.run_id, claimed.seq, segment.owner, state, row, effect, now)
        delay = max(0.0, (effect.wait.deadline - now).total_seconds())
        self._engine.enqueue(connection, claimed.run_id, claimed.seq + 1, delay=delay)

    async def _over(self, claimed: Claimed, owner: str, state: RunState, row: StepRow | None, effect: Finish) -> None:
        now = self._clock.now()
        await self._write(
            lambda connection: store.finish(connection, claimed.run_id, claimed.seq, owner, state, row, effect, now)
        )
        self._observer.run_over(effect.status)
        level = logging.WARNING if effect.status == "failed" else logging.INFO
        log.log(
            level, "run is over", extra={"run_id": claimed.run_id, "status": effect.status, "reason": effect.reason}
        )

    async def _execute(
        self, segment: _Segment, state: RunState, action_id: str, lines: trace.StepLog, *, resume: bool
    ) -> Outcome:
        claimed, program = segment.claimed, segment.program
        action = program.action(action_id)
        step = self._steps.get(action.type)
        if step is None:
            return Failed("step.unavailable", f"this installation has no step of type {action.type!r}")
        payload = None if state.previous is None else segment.results.get(state.previous)
        scope = {
            **segment.scope,
            "variables": dict(state.variables),
            "steps": segment.results,
            "payload": payload,
        }
        context = StepContext(
            run_id=claimed.run_id,
            action=action,
            now=self._clock.now(),
            render=lambda: program.render(action_id, scope),
            log=lines.write,
        )
        if resume and claimed.wait is not None:
            work = step.resume(context, claimed.wait, claimed.wake)
        else:
            work = step.run(context)
        return await self._watch(claimed.run_id, asyncio.ensure_future(work))

    async def _watch(self, run_id: str, task: "asyncio.Task[Outcome]") -> Outcome:
        """The step's outcome; Cancelled only once the task has really ended."""
        self._active[run_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if run_id in self._asked and task.cancelled():
                return Cancelled()
            task.cancel()  # this process is stopping: the segment is taken up again later
            raise
        except RunFenced:
            raise
        except LoopsError as error:
            return Failed(error.code, error.message, error.hint)
        except Exception as error:
            # A fault in a step is the run's end, told on its page; the traceback is the operator's.
            log.exception("step raised", extra={"run_id": run_id})
            return Failed("step.internal", f"internal error: {type(error).__name__}: {error}")
        finally:
            self._active[run_id] = None

    def _row(
        self,
        segment: _Segment,
        state: RunState,
        action_id: str,
        came: Outcome,
        lines: trace.StepLog,
        started: datetime,
        now: datetime,
    ) -> StepRow:
        action = segment.program.action(action_id)
        status, result, error = _told(came)
        return StepRow(
            step_id=action_id,
            type=action.type,
            name=action.name,
            position=state.steps,
            status=status,
            result=trace.bounded(result),
            error=error,
            log=lines.lines,
            started_at=started,
            finished_at=None if isinstance(came, Parked) else now,
        )


def _told(came: Outcome) -> tuple[str, JsonValue, dict[str, Any] | None]:
    match came:
        case Succeeded(result):
            return "completed", result, None
        case Ended(reason):
            return "completed", {"reason": reason}, None
        case Failed(code, message, hint, partial):
            return "failed", partial, {"code": code, "message": message, "hint": hint}
        case Parked():
            return "waiting", None, None
        case Cancelled():
            return "cancelled", None, None
