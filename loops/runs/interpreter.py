"""Advances a run, segment by segment: execute a step, store what it came to, ask the pure core what follows.

A segment ends when the run parks or is over. Nothing here knows the durable engine: it calls `advance`, again after a
crash, and the claim on the run's row decides who may act.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from loops.errors import LoopsError, RunFenced, StoreBusy
from loops.ports import Clock, Engine, Writer
from loops.runs import trace
from loops.runs.acting import Acting, Segment
from loops.runs.program import Program
from loops.runs.settling import Settled, Settling, failure
from loops.runs.state import Cancelled, Failed, Finish, Park, RunState, next_effect
from loops.runs.step import Step, StepContext, StepOutcome, Transacted
from loops.store import runs as store
from loops.store.patience import persist
from loops.store.runs import Claimed

log = logging.getLogger("loops.runs")


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
        settling: Settling | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._writer = writer
        self._settling = settling or Settling(engine, clock)
        self._clock = clock
        self._steps = steps
        self._load = load
        self._observer = observer or Observer()
        self._active: dict[str, asyncio.Task[StepOutcome] | None] = {}
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
        claimed = await persist(self._writer, lambda connection: store.claim(connection, run_id, seq, owner, now))
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

    async def _drive(self, claimed: Claimed, owner: str) -> None:
        try:
            program = self._load(claimed)
        except LoopsError as error:
            await self._over(claimed, owner, claimed.state, Finish("failed", f"definition: {error.message}"))
            return
        segment = Segment(claimed, owner, program, dict(claimed.results), program.scope(claimed))
        state, wait = claimed.state, claimed.wait
        while True:
            effect = Finish("cancelled", "cancelled on request") if self._is_asked(claimed) else next_effect(state)
            if isinstance(effect, Finish):
                await self._over(claimed, owner, state, effect)
                return
            if isinstance(effect, Park):
                return
            following = await self._step(segment, state, effect.action, resume=wait is not None)
            if following is None:
                return
            state, wait = following, None

    def _is_asked(self, claimed: Claimed) -> bool:
        return claimed.run_id in self._asked

    async def _step(self, segment: Segment, state: RunState, action_id: str, *, resume: bool) -> RunState | None:
        """Execute one action and store the outcome. The state to go on with, None when the segment is over."""
        acting = Acting(segment, state, action_id, self._clock.now(), trace.StepLog(self._clock))
        settled = await self._settle(acting, await self._execute(acting, resume=resume))
        row = settled.row
        self._observer.step_done(row.type, row.status, (self._clock.now() - acting.started).total_seconds())
        if isinstance(settled.effect, Finish):
            self._tell_over(segment.claimed, settled.effect)
        if isinstance(settled.effect, Park | Finish):
            return None
        segment.results[action_id] = row.result
        if settled.asked:
            self._asked.add(segment.claimed.run_id)
        return settled.state

    async def _settle(self, acting: Acting, came: StepOutcome) -> Settled:
        """Store what the step came to, together with what it decides in that transaction.

        Where its decision fails nothing of it is stored, and the fault is the step's.
        """
        try:
            settled = await self._stored(acting, came)
        except (RunFenced, StoreBusy):
            raise
        except LoopsError as error:
            return await self._stored(acting, failure(error))
        except Exception as error:
            log.exception("step raised", extra={"run_id": acting.segment.claimed.run_id})
            return await self._stored(acting, _internal(error))
        if isinstance(came, Transacted):
            came.after()
        return settled

    async def _stored(self, acting: Acting, came: StepOutcome) -> Settled:
        return await persist(self._writer, lambda connection: self._settling.settle(connection, acting, came))

    async def _over(self, claimed: Claimed, owner: str, state: RunState, effect: Finish) -> None:
        await persist(self._writer, lambda connection: self._settling.finish(connection, claimed, owner, state, effect))
        self._tell_over(claimed, effect)

    def _tell_over(self, claimed: Claimed, effect: Finish) -> None:
        self._observer.run_over(effect.status)
        level = logging.WARNING if effect.status == "failed" else logging.INFO
        log.log(
            level, "run is over", extra={"run_id": claimed.run_id, "status": effect.status, "reason": effect.reason}
        )

    async def _execute(self, acting: Acting, *, resume: bool) -> StepOutcome:
        claimed, program = acting.segment.claimed, acting.segment.program
        action = program.action(acting.action_id)
        step = self._steps.get(action.type)
        if step is None:
            return Failed("step.unavailable", f"this installation has no step of type {action.type!r}")
        scope = acting.scope()
        context = StepContext(
            run_id=claimed.run_id,
            action=action,
            now=self._clock.now(),
            render=lambda: program.render(acting.action_id, scope),
            log=acting.lines.write,
            project_id=claimed.project_id,
            workflow_id=claimed.workflow_id,
            scope=scope,
            fields=program.fields(acting.action_id),
        )
        if resume and claimed.wait is not None:
            work = step.resume(context, claimed.wait, claimed.wake)
        else:
            work = step.run(context)
        return await self._watch(acting, asyncio.ensure_future(work))

    async def _watch(self, acting: Acting, task: "asyncio.Task[StepOutcome]") -> StepOutcome:
        """The step's outcome; Cancelled only once the task has really ended."""
        run_id = acting.segment.claimed.run_id
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
            return failure(error)
        except Exception as error:
            log.exception("step raised", extra={"run_id": run_id})
            return _internal(error)
        finally:
            self._active[run_id] = None


def _internal(error: Exception) -> Failed:
    """A fault of ours is the run's end, told on its page; the traceback is the operator's."""
    return Failed("step.internal", f"internal error: {type(error).__name__}: {error}")
