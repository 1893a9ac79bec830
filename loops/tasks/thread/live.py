"""Whose a Slack thread is, from the message that started a task to the last that is said to it.

    bind -> working --a turn is over--> listening --somebody speaks--> working --> ...
               |                           |  nobody speaks for some minutes
               '-- cancelled, failed ------'------> closed

Everything here is part of the caller's transaction. What is posted goes through the outbox, so that every turn's answer
is in the thread once, or never and told as such.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from loops.errors import LoopsError
from loops.event import JsonValue
from loops.ports import Clock, Engine, Messages, Origin
from loops.store import connections as connection_store
from loops.store import outbox, run_requests
from loops.store import tasks as task_store
from loops.store import threads as store
from loops.store.tasks import ClaimedTask, TaskEnd
from loops.store.threads import NewThread, Place, ThreadRow
from loops.tasks.ends import died
from loops.tasks.thread.context import SlackContext

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger("loops.tasks")

MOST_TURNS = 50
"""Of one task: whoever goes on after that starts anew."""
_INCOMPLETE = "Incomplete: the task did not end by itself."
_CANCELLED = "cancelled on request"
_SILENT = "nobody said more"

Stopped = Literal["none", "closed", "acting"]


@dataclass(frozen=True, slots=True)
class Asking:
    """A new task that may have a thread. `allows_external`: in a channel that is shared with others, and of them."""

    task_id: str
    project_id: str
    workflow_id: str
    run_id: str
    context: SlackContext
    allows_external: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said in a thread of a project."""

    project_id: str
    context: SlackContext
    said: Mapping[str, JsonValue]
    delivery_id: str
    external: bool


class TaskThreads:
    """Binds, hears, answers and closes threads. `seconds` is how long a task listens after each of its turns."""

    def __init__(self, messages: Messages, engine: Engine, clock: Clock, seconds: float) -> None:
        self._messages = messages
        self._engine = engine
        self._clock = clock
        self._seconds = seconds

    def bind(self, connection: "sa.Connection", asking: Asking) -> str:
        """Give a new task the thread of the message that started it; why it gets none, empty where it does."""
        context = asking.context
        number = _connection(connection, asking.project_id, context)
        if number is None:
            return "the project has no Slack connection that the message came over"
        if context.is_ext_shared and not asking.allows_external:
            return (
                "the channel is shared with another organisation; allow_external_users in the step lets its result go "
                "there"
            )
        new = NewThread(
            asking.task_id,
            asking.workflow_id,
            asking.run_id,
            number,
            place_of(asking.project_id, context),
            context.message_ts,
            context.user,
            asking.allows_external,
        )
        if not store.insert(connection, new, self._clock.now()):
            return "another live task has the thread"
        return ""

    def owner(self, connection: "sa.Connection", said: Said) -> ThreadRow | None:
        """The thread in which it was said, held, where a live task has that and may hear who spoke. What started the
        task is nothing that is said to it."""
        thread = store.live_in(connection, place_of(said.project_id, said.context), self._clock.now())
        if thread is None or said.context.message_ts == thread.message_ts:
            return None
        if not task_store.owner_can_run(connection, thread.workflow_id):
            return None  # a new task would be refused as well, and says so
        return None if said.external and not thread.allows_external else thread

    def had(self, connection: "sa.Connection", thread: ThreadRow, ts: str) -> str | None:
        """The delivery that brought a message to the task of a thread; None where none did."""
        known = store.said_in(connection, thread.task_id, ts)
        return None if known is None else known.delivery_id

    def hear(self, connection: "sa.Connection", thread: ThreadRow, said: Said) -> None:
        """Hand a message to the task of its thread, which the caller holds: before its next round while it works, as
        another turn where it listens."""
        now, context = self._clock.now(), said.context
        new = store.say(
            connection,
            thread.task_id,
            context.message_ts,
            user=context.user,
            said=said.said,
            delivery_id=said.delivery_id,
            now=now,
        )
        if new and thread.status == store.LISTENING:
            self._begin(connection, thread)

    def wake(self) -> None:
        """After a commit: an answer was put, and may be sent now."""
        self._messages.wake()

    def _begin(self, connection: "sa.Connection", thread: ThreadRow) -> None:
        seq = store.begin_turn(connection, thread, self._clock.now())
        self._engine.enqueue_task(connection, thread.task_id, seq)

    def task_over(self, connection: "sa.Connection", task_id: str, end: TaskEnd, *, rounds: bool = True) -> None:
        """The first turn is over, and the task with it: its result goes to the thread. The caller holds run and task.
        `rounds`: whether the agent took any."""
        thread = store.held(connection, task_id)
        if thread is not None and thread.live:
            self._turn_over(connection, thread, end, rounds=rounds, cost=end.cost)

    def turn_over(
        self, connection: "sa.Connection", claimed: ClaimedTask, owner: str, end: TaskEnd, *, rounds: bool
    ) -> None:
        """A later turn is over; `end` holds what this turn cost. Raises RunFenced where another worker has it."""
        run_requests.hold(connection, claimed.run_id)
        now = self._clock.now()
        task_store.tell(connection, claimed.id, owner, {}, now)
        thread = store.held(connection, claimed.id)
        store.finish_turn(connection, claimed.id)
        if end.cost:
            run_requests.add_cost(connection, claimed.run_id, end.cost)
        if thread is not None and thread.live:
            self._turn_over(connection, thread, end, rounds=rounds, cost=end.cost)

    def _turn_over(
        self, connection: "sa.Connection", thread: ThreadRow, end: TaskEnd, *, rounds: bool, cost: float | None
    ) -> None:
        now = self._clock.now()
        turn = {
            "number": thread.turn,
            "status": end.status,
            "ending": end.ending,
            "reason": end.reason,
            "cost": cost,
            "finished_at": now.isoformat(),
            "pr_urls": list(_urls(end)),
        }
        store.keep_turn(connection, thread, turn)
        if end.status == "cancelled":
            self._withdraw(connection, thread)
            store.close(connection, thread.task_id, _CANCELLED, now)
            return
        self._answer(connection, thread, end)
        self._go_on(connection, thread, end, rounds=rounds)

    def _go_on(self, connection: "sa.Connection", thread: ThreadRow, end: TaskEnd, *, rounds: bool) -> None:
        """What follows a turn: another where somebody spoke meanwhile, else listening after one that came to an end by
        itself, whether or not all that it asked for was written. A turn that broke before its first round would only
        break again."""
        now = self._clock.now()
        waiting = bool(store.untold(connection, thread.task_id))
        by_itself = end.status == "completed" or end.ending == "refused"
        if thread.turn >= MOST_TURNS:
            store.close(connection, thread.task_id, f"{MOST_TURNS} turns are the most of one task", now)
        elif waiting and (by_itself or rounds):
            self._begin(connection, thread)
        elif not by_itself:
            store.close(connection, thread.task_id, f"the turn ended as {end.status}", now)
        elif self._seconds:
            store.listen(connection, thread.task_id, now + timedelta(seconds=self._seconds), now)
        else:
            store.close(connection, thread.task_id, _SILENT, now)

    def _answer(self, connection: "sa.Connection", thread: ThreadRow, end: TaskEnd) -> None:
        """Put what a turn came to into the outbox. A fault of that must not undo the turn."""
        text = str(end.result.get("final_message") or "").strip() or end.reason
        text = "\n".join([text, *(url for url in _urls(end) if url not in text)])
        if thread.turn > 1 and end.ending == "noop":
            return  # people who speak with each other
        inputs: dict[str, JsonValue] = {
            "slack_workspace": thread.connection_id,
            "channel": thread.channel,
            "thread_ts": thread.thread_ts,
            "text": text,
        }
        origin = Origin(thread.project_id, thread.run_id, None, message_key(thread.task_id, thread.turn))
        notice = "" if end.status == "completed" else _INCOMPLETE
        try:
            with connection.begin_nested():
                self._messages.put(connection, "slack", inputs, origin, notice=notice)
        except LoopsError as error:
            log.warning("the answer for a thread cannot be sent: %s", error.message, extra={"task_id": thread.task_id})

    def mend_turn(self, connection: "sa.Connection", *, task_id: str, seq: int, again: bool) -> None:
        """A turn that has lost its place in the queue gets another (`again`), or ends where it had too many."""
        now, task = self._clock.now(), task_store.get(connection, task_id)
        run_requests.hold(connection, task.run_id)
        thread = store.held(connection, task_id)
        if thread is None or thread.status != store.WORKING or thread.turn == 1:
            return
        fresh = store.restart_turn(connection, task_id, seq, now) if again else None
        if fresh is not None:
            self._engine.enqueue_task(connection, task_id, fresh)
        elif task_store.get(connection, task_id).seq == seq:
            store.finish_turn(connection, task_id)
            self._turn_over(connection, thread, died(task_id), rounds=False, cost=None)

    def cancel(self, connection: "sa.Connection", run_id: str) -> Stopped:
        """Stop what the threads of a run listen for, and whatever turn is under way; `acting` while one still is.

        The first turn is none of these: it ends with the task, which the run itself stops.
        """
        run_requests.hold(connection, run_id)
        stopped: Stopped = "none"
        for task_id in store.live_of_run(connection, run_id):
            thread = store.held(connection, task_id)
            if thread is None or not thread.live or not task_store.get(connection, task_id).over:
                continue
            came = self._stop(connection, thread)
            stopped = "acting" if "acting" in (came, stopped) else "closed"
        if stopped == "closed" and store.acts(connection, run_id, self._clock.now()):
            return "acting"
        return stopped

    def _stop(self, connection: "sa.Connection", thread: ThreadRow) -> Stopped:
        now = self._clock.now()
        self._withdraw(connection, thread)
        if thread.status == store.WORKING and store.worked_on(connection, thread.task_id):
            store.ask_to_stop(connection, thread.task_id, now)
            return "acting"
        store.close(connection, thread.task_id, _CANCELLED, now)
        return "closed"

    def acts(self, connection: "sa.Connection", run_id: str) -> bool:
        """Whether something may still come into a thread of the run."""
        return store.acts(connection, run_id, self._clock.now())

    def _withdraw(self, connection: "sa.Connection", thread: ThreadRow) -> None:
        """Nothing that was not sent yet is sent any more."""
        keys = [message_key(thread.task_id, turn) for turn in range(1, thread.turn + 1)]
        for message_id in outbox.unsent(connection, thread.project_id, keys):
            self._messages.withdraw(connection, message_id)


def _urls(end: TaskEnd) -> Sequence[str]:
    """The pull requests that a turn opened or went on with."""
    told = end.result.get("pr_urls")
    return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []


def message_key(task_id: str, turn: int) -> str:
    """The key of the message with a turn's answer."""
    return f"{task_id}:thread:{turn}"


def place_of(project_id: str, context: SlackContext) -> Place:
    """Where a message's thread is. Of an unknown workspace the connection stands for it."""
    team = context.team_id or f"connection {context.integration_id}"
    return Place(project_id, team, context.channel, context.thread_ts)


def _connection(connection: "sa.Connection", project_id: str, context: SlackContext) -> int | None:
    """The Slack connection that the message came over; where that is gone, the one of its workspace."""
    there = connection_store.listed(connection, project_id, "slack")
    for one in there:
        if one.id == context.integration_id:
            return one.id
    same = [one for one in there if context.team_id and one.config.get("team_id") == context.team_id]
    return same[0].id if same else None


def turn_end(end: TaskEnd, rounds: Sequence[Mapping[str, Any]]) -> TaskEnd:
    """The end of one turn, with what its own rounds cost."""
    costs = [one["cost"] for one in rounds]
    known = [float(cost) for cost in costs if cost is not None]
    return replace(end, cost=sum(known) if len(known) == len(costs) else None)
