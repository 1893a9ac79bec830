"""Works on tasks: an agent a task, its rounds kept before the next begins, its end stored with the wake of its run.

Nothing here knows the durable engine: it calls `work`, again after a crash, and the claim on the task's row decides who
may act. An agent that is taken up goes on from the rounds that were kept.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from loops.agent.guards import Ending
from loops.agent.interruption import Abort
from loops.agent.models.choice import Models
from loops.agent.sanitise import sanitised, sanitised_value
from loops.agent.tools import Resources
from loops.agent.tools.tool import Tool
from loops.agent.transcript import Round, Transcript
from loops.brief import one_line
from loops.errors import ConfigError, LoopsError, RunFenced, StoreBusy, StoreError
from loops.packed import unpack
from loops.ports import Clock, Engine, Reader, Writer
from loops.store import tasks as store
from loops.store import threads as thread_store
from loops.store.patience import persist
from loops.store.tasks import ClaimedTask, TaskEnd
from loops.tasks.activity import Activity
from loops.tasks.allowance import Limits as Quotas
from loops.tasks.ending import end_task
from loops.tasks.ends import end_of
from loops.tasks.equipment import Came, Equipment, Job, equipped
from loops.tasks.journal import StoredJournal, masked
from loops.tasks.limits import WorkLimits
from loops.tasks.notes import StoredNotes
from loops.tasks.result import task_result
from loops.tasks.runners.builtin import BuiltIn
from loops.tasks.runners.choice import ByModel, Commands
from loops.tasks.runners.runner import Runner, Work
from loops.tasks.spending import StoredBudget
from loops.tasks.thread.inbox import StoredInbox
from loops.tasks.thread.live import TaskThreads, turn_end

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("loops.tasks")

CANCEL_SECONDS = 0.5
_FAULT = "a fault of Loops, which its log tells of"


@dataclass(frozen=True, slots=True)
class Broken:
    """Why an agent could not go on, and what mends it where that is known."""

    ending: Ending
    reason: str
    mend: str = ""


def _as_it_is(text: str) -> str:
    return text


class TaskWorker:
    """Works on tasks in this process. `mask` blots out secrets in all that is kept, `link` is the page of a run, and
    `tools` are given to every agent beside those of its task. `commands` makes the runners that start a command, none
    of which is there without it, and `quotas` are what tasks are held to together."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        models: Models,
        limits: WorkLimits | None = None,
        *,
        mask: Callable[[str], str] = _as_it_is,
        link: Callable[[str], str] = lambda _run_id: "",
        over: Callable[[str], None] = lambda _ending: None,
        tools: Sequence[Tool] = (),
        equipment: Sequence[Equipment] = (),
        commands: Commands | None = None,
        quotas: Quotas | None = None,
        threads: TaskThreads | None = None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._clock = clock
        own = BuiltIn(models, clock, self._name_model)
        self._runner: Runner = ByModel(own, models, None if commands is None else commands(self._name_model))
        self._limits = limits or WorkLimits()
        self._mask = mask
        self._link = link
        self._tools = tools
        self._equipment = equipment
        self._quotas = quotas
        self._threads = threads
        self._over = over
        self._aborts: dict[str, Abort] = {}
        self._driving: set[asyncio.Task[Any]] = set()

    @property
    def active(self) -> list[str]:
        """The tasks that are worked on in this process now."""
        return list(self._aborts)

    def stop_task(self, task_id: str) -> None:
        """Stop an active task; it ends as cancelled once that has stopped."""
        abort = self._aborts.get(task_id)
        if abort is not None:
            abort.ask()

    async def work(self, task_id: str, seq: int, owner: str) -> None:
        """Work on (task, seq) until it is over. A stale or fenced call changes nothing."""
        driving = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine that runs has one
        self._driving.add(driving)
        try:
            await self._work(task_id, seq, owner)
        finally:
            self._driving.discard(driving)

    async def abandon(self) -> None:
        """Stop whatever is worked on here. It is taken up elsewhere or later, from the round that was kept last."""
        driving = list(self._driving)
        for one in driving:
            one.cancel()
        await asyncio.gather(*driving, return_exceptions=True)

    async def _work(self, task_id: str, seq: int, owner: str) -> None:
        place = (task_id, seq, owner, self._clock.now())
        claimed = await persist(self._writer, lambda at: store.claim(at, *place) or thread_store.claim_turn(at, *place))
        if claimed is None:
            log.info("task is stale", extra={"task_id": task_id, "seq": seq})
            return
        abort = self._aborts[task_id] = Abort()
        if claimed.cancel_requested:
            abort.ask()
        try:
            end = await self._end_of(claimed, owner, abort)
            await self._finish(claimed, owner, end)
        except RunFenced:
            log.warning("task was taken over by another worker", extra={"task_id": task_id, "seq": seq})
        finally:
            self._aborts.pop(task_id, None)

    async def _end_of(self, claimed: ClaimedTask, owner: str, abort: Abort) -> TaskEnd:
        """How the task ended, whatever happened."""
        transcript = _transcript(claimed)
        kept = (transcript.rounds, transcript.turn)
        journal = StoredJournal(self._writer, self._clock, claimed.id, owner, self._mask, *kept)
        try:
            came = await self._run(Job(claimed, owner, abort), transcript, journal)
        except (RunFenced, StoreBusy):
            raise
        except ConfigError as error:  # its message has the mends of all its faults
            return self._broken(claimed, journal, Broken("provider_error", error.message))
        except StoreError as error:
            log.exception("the database failed a task", extra={"task_id": claimed.id})
            return self._broken(claimed, journal, Broken("internal_error", f"{_FAULT}: {error.message}"))
        except LoopsError as error:
            return self._broken(claimed, journal, Broken("not_equipped", error.message, error.hint))
        except Exception as error:
            # A fault of ours ends the task, told on its page; the traceback is the operator's.
            log.exception("agent raised", extra={"task_id": claimed.id})
            said = f"{_FAULT}: {type(error).__name__}: {error}"
            return self._broken(claimed, journal, Broken("internal_error", said))
        return self._ended(claimed, came)

    async def _run(self, job: Job, transcript: Transcript, journal: StoredJournal) -> Came:
        """What the runner came to, and what became of what it left."""
        task = job.task
        notes = StoredNotes(self._writer, self._reader, self._clock, task, self._mask)
        resources = Resources(unpack(task.event), notes if notes.subject else None)
        async with (
            equipped(job, resources, self._equipment) as given,
            Activity(self._writer, self._clock, task.id, job.owner, self._mask) as activity,
        ):
            inbox = StoredInbox(self._reader, task.id, self._mask)
            given_to = (given.resources, self._limits_of(task), self._tools, inbox)
            work = Work(job, transcript, journal, activity, *given_to)
            result = await self._runner.run(work)
            return Came(result) if job.abort.asked else await given.settle(result)

    def _limits_of(self, task: ClaimedTask) -> WorkLimits:
        quotas = self._quotas
        if quotas is None:
            return self._limits
        shared = partial(StoredBudget, self._writer, self._clock, task, quotas)
        return replace(self._limits, shared=shared)

    async def _name_model(self, job: Job, model: str) -> None:
        now = self._clock.now()
        await persist(self._writer, lambda connection: store.name_model(connection, job.task.id, job.owner, model, now))

    def _ended(self, claimed: ClaimedTask, whole: Came) -> TaskEnd:
        came = whole.result
        # Sanitised first: a secret that hidden letters part is whole only then.
        message, reason = self._mask(sanitised(came.message)), self._mask(sanitised(came.reason))
        output = masked({name: sanitised_value(value) for name, value in came.output.items()}, self._mask)
        result = task_result(
            came.ending, reason, message, output, link=self._link(claimed.run_id), pr_urls=whole.pr_urls
        )
        cost = None if came.cost is None else float(came.cost)
        return end_of(claimed.id, result, came.rounds, came.usage.input, came.usage.output, cost)

    def _broken(self, claimed: ClaimedTask, journal: StoredJournal, broken: "Broken") -> TaskEnd:
        """The end of a task whose agent could not go on: with all that was kept of its rounds."""
        transcript = journal.transcript
        text = self._mask(sanitised(transcript.last_text))
        # Masked before they are cut: half of a secret is not known as one.
        reason, mend = (one_line(self._mask(sanitised(one))) for one in (broken.reason, broken.mend))
        result = task_result(broken.ending, reason, text, {}, mend=mend)
        cost, usage = transcript.cost, transcript.usage
        return end_of(
            claimed.id, result, len(transcript.rounds), usage.input, usage.output, None if cost is None else float(cost)
        )

    async def _finish(self, claimed: ClaimedTask, owner: str, end: TaskEnd) -> None:
        seq = await persist(self._writer, lambda connection: self._store_end(connection, claimed, owner, end))
        if self._threads is not None:
            self._threads.wake()
        self._over(end.ending)
        level = logging.INFO if end.status in {"completed", "cancelled"} else logging.WARNING
        log.log(level, "task is over", extra={"task_id": claimed.id, "status": end.status, "reason": end.reason})
        if seq is not None:
            await wake_run(self._engine, claimed.run_id, seq)

    def _store_end(self, connection: "Connection", claimed: ClaimedTask, owner: str, end: TaskEnd) -> int | None:
        """The seq of the run to wake, None where none waits. Raises RunFenced."""
        now, threads = self._clock.now(), self._threads
        rounds = [one for one in store.rounds(connection, claimed.id) if one.get("turn", 1) == claimed.turn]
        if claimed.turn > 1:
            if threads is not None:
                threads.turn_over(connection, claimed, owner, turn_end(end, rounds), rounds=bool(rounds))
            return None
        seq = end_task(connection, claimed.run_id, claimed.step_id, claimed.id, end, now, owner)
        if threads is not None:
            threads.task_over(connection, claimed.id, end, rounds=bool(rounds))
        return seq


async def wake_run(engine: Engine, run_id: str, seq: int) -> None:
    """Make the woken segment due; where that fails the sweeper does it."""
    try:
        await engine.wake(run_id, seq)
    except StoreBusy as error:
        log.warning("woken run waits for the sweeper: %s", error.message, extra={"run_id": run_id})


async def watch_task_cancellations(worker: TaskWorker, reader: Reader) -> None:
    """Stop tasks of this process that somebody asked to cancel, themselves or with their run, within a second."""
    while True:
        await asyncio.sleep(CANCEL_SECONDS)
        active = worker.active
        if not active:
            continue
        try:
            asked = await reader.read(lambda connection, ids=active: store.cancel_requests(connection, ids))  # type: ignore[misc]
        except StoreBusy as error:
            log.warning("cannot look for cancellations: %s", error.message)
            continue
        for task_id in asked:
            worker.stop_task(task_id)


def _transcript(claimed: ClaimedTask) -> Transcript:
    request: Mapping[str, Any] = claimed.request
    rounds = tuple(Round.from_json(one) for one in claimed.rounds)
    return Transcript(request["system"], request["opening"], rounds, claimed.turn)
