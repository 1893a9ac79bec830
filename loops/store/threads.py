"""Threads of tasks and what people say in them, as SQL: functions over a connection inside the caller's transaction.

A transaction that changes a run, its task and its thread takes them in this order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.store.once import insert_once
from loops.store.runs import PAGE
from loops.store.tables import outbox, runs, workflows
from loops.store.task_tables import tasks
from loops.store.tasks import MOST_RESTARTS, ClaimedTask, claimed_task
from loops.store.thread_tables import thread_messages, threads

WORKING, LISTENING, CLOSED = "working", "listening", "closed"
# Written out, not bound: SQLite uses a partial index only for a condition that it can read.
_LIVE = sa.text("loops_threads.status <> 'closed'")


@dataclass(frozen=True, slots=True)
class Place:
    """A thread of a workspace, as a project knows it."""

    project_id: str
    team_id: str
    channel: str
    thread_ts: str


@dataclass(frozen=True, slots=True)
class NewThread:
    """A thread that a task is to have. `message_ts` is the message that started its run, by `user`."""

    task_id: str
    workflow_id: str
    run_id: str
    connection_id: int
    place: Place
    message_ts: str
    user: str
    allows_external: bool


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread as it stands; see TaskThread."""

    task_id: str
    project_id: str
    workflow_id: str
    run_id: str
    connection_id: int
    team_id: str
    channel: str
    thread_ts: str
    message_ts: str
    user: str
    allows_external: bool
    status: str
    reason: str
    turn: int
    turn_at: datetime
    turns: Sequence[Mapping[str, Any]]
    listens_until: datetime | None
    reaction: str
    progress_ts: str
    progress_text: str
    progress_turn: int
    signs_at: datetime | None
    showing_until: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def live(self) -> bool:
        """Whether the task still has the thread."""
        return self.status != CLOSED


@dataclass(frozen=True, slots=True)
class SaidRow:
    """What somebody said in a thread; `round` is the round that was told of it, None until then."""

    ts: str
    user: str
    said: Mapping[str, Any]
    delivery_id: str
    round: int | None
    created_at: datetime


_ROW = [threads.c[name] for name in ThreadRow.__dataclass_fields__]
_SAID = [thread_messages.c[name] for name in SaidRow.__dataclass_fields__]


def insert(connection: sa.Connection, new: NewThread, now: datetime) -> bool:
    """Give a task its thread; False where another live task has it."""
    place = new.place
    here = (
        threads.c.project_id == place.project_id,
        threads.c.team_id == place.team_id,
        threads.c.channel == place.channel,
        threads.c.thread_ts == place.thread_ts,
    )
    # One that has listened long enough is over, although nobody has looked since.
    over = (threads.c.status == LISTENING, threads.c.listens_until <= now)
    connection.execute(threads.update().where(*here, *over).values(**_closed("nobody said more", now)))
    row = {
        "task_id": new.task_id,
        "project_id": place.project_id,
        "workflow_id": new.workflow_id,
        "run_id": new.run_id,
        "connection_id": new.connection_id,
        "team_id": place.team_id,
        "channel": place.channel,
        "thread_ts": place.thread_ts,
        "message_ts": new.message_ts,
        "user": new.user,
        "allows_external": new.allows_external,
        "status": WORKING,
        "reason": "",
        "turn": 1,
        "turn_at": now,
        "turns": [],
        "reaction": "",
        "progress_ts": "",
        "progress_text": "",
        "progress_turn": 0,
        "signs_at": now,
        "created_at": now,
        "updated_at": now,
    }
    return connection.execute(insert_once(connection, threads), row).rowcount > 0


def _closed(reason: str, now: datetime) -> dict[str, Any]:
    return {"status": CLOSED, "reason": reason, "listens_until": None, "signs_at": now, "updated_at": now}


def of_task(connection: sa.Connection, task_id: str) -> ThreadRow | None:
    """The thread of a task."""
    row = connection.execute(sa.select(*_ROW).where(threads.c.task_id == task_id)).first()
    return None if row is None else ThreadRow(*row)


def of_tasks(connection: sa.Connection, task_ids: Sequence[str]) -> dict[str, ThreadRow]:
    """The threads of tasks that have one, by the task."""
    if not task_ids:
        return {}
    rows = connection.execute(sa.select(*_ROW).where(threads.c.task_id.in_(task_ids)))
    return {row.task_id: ThreadRow(*row) for row in rows}


def held(connection: sa.Connection, task_id: str) -> ThreadRow | None:
    """The thread of a task, held with the task until the transaction ends."""
    connection.execute(sa.select(tasks.c.id).where(tasks.c.id == task_id).with_for_update())
    row = connection.execute(sa.select(*_ROW).where(threads.c.task_id == task_id).with_for_update()).first()
    return None if row is None else ThreadRow(*row)


def live_in(connection: sa.Connection, place: Place, now: datetime) -> ThreadRow | None:
    """The thread at this place that a live task of an enabled loop has, held with its task until the transaction
    ends."""
    query = (
        sa.select(threads.c.task_id)
        .join(workflows, workflows.c.id == threads.c.workflow_id)
        .where(threads.c.project_id == place.project_id, threads.c.team_id == place.team_id)
        .where(threads.c.channel == place.channel, threads.c.thread_ts == place.thread_ts, _LIVE)
        .where(workflows.c.status == "active")
    )
    task_id = connection.execute(query).scalar()
    row = None if task_id is None else held(connection, task_id)
    if row is None or not row.live or (row.listens_until is not None and row.listens_until <= now):
        return None
    return row


def is_live(connection: sa.Connection, task_id: str) -> bool:
    """Whether a task still has its thread."""
    return (
        connection.execute(sa.select(threads.c.task_id).where(threads.c.task_id == task_id, _LIVE)).first() is not None
    )


def live_of_run(connection: sa.Connection, run_id: str) -> list[str]:
    """The tasks of a run that still have a thread."""
    return list(connection.execute(sa.select(threads.c.task_id).where(threads.c.run_id == run_id, _LIVE)).scalars())


def runs_with_live(connection: sa.Connection, workflow_id: str, limit: int) -> list[str]:
    """Runs of a workflow whose tasks still have a thread that nobody has asked to close."""
    query = (
        sa.select(threads.c.run_id)
        .join(tasks, tasks.c.id == threads.c.task_id)
        .where(threads.c.workflow_id == workflow_id, _LIVE, tasks.c.cancel_requested_at.is_(None))
    )
    return list(connection.execute(query.distinct().order_by(threads.c.run_id).limit(limit)).scalars())


def acts(connection: sa.Connection, run_id: str, now: datetime) -> bool:
    """Whether something may still come into a thread of the run: a turn, a sign, or a message that is being sent."""
    open_ones = sa.or_(_LIVE, threads.c.showing_until > now)
    if connection.execute(sa.select(threads.c.task_id).where(threads.c.run_id == run_id, open_ones)).first():
        return True
    sending = (outbox.c.run_id == run_id, outbox.c.step_id.is_(None), outbox.c.status == "sending")
    return connection.execute(sa.select(outbox.c.id).where(*sending)).first() is not None


def version_of_run(connection: sa.Connection, run_id: str) -> int:
    """The version of the workflow that the run goes by; 0 where the run is no longer kept."""
    return connection.execute(sa.select(runs.c.version).where(runs.c.id == run_id)).scalar() or 0


def close(connection: sa.Connection, task_id: str, reason: str, now: datetime) -> None:
    """The thread is nobody's any more."""
    connection.execute(threads.update().where(threads.c.task_id == task_id).values(**_closed(reason, now)))


def listen(connection: sa.Connection, task_id: str, until: datetime, now: datetime) -> None:
    """The turn is over: hear what people say until then."""
    values = {"status": LISTENING, "listens_until": until, "signs_at": now, "updated_at": now}
    connection.execute(threads.update().where(threads.c.task_id == task_id).values(**values))


def keep_turn(connection: sa.Connection, row: ThreadRow, turn: Mapping[str, Any]) -> None:
    """Add a turn to those that are over."""
    kept = [*row.turns, dict(turn)]
    connection.execute(threads.update().where(threads.c.task_id == row.task_id).values(turns=kept))


def begin_turn(connection: sa.Connection, row: ThreadRow, now: datetime) -> int:
    """The next turn is due: the seq under which the task is to be worked on. The caller holds the thread."""
    values = {"status": WORKING, "turn": row.turn + 1, "turn_at": now, "listens_until": None, "signs_at": now}
    connection.execute(threads.update().where(threads.c.task_id == row.task_id).values(**values, updated_at=now))
    changed = connection.execute(
        tasks.update()
        .where(tasks.c.id == row.task_id)
        .values(seq=tasks.c.seq + 1, owner=None, restarts=0, updated_at=now)
        .returning(tasks.c.seq)
    )
    return int(changed.scalar_one())


def claim_turn(connection: sa.Connection, task_id: str, seq: int, owner: str, now: datetime) -> ClaimedTask | None:
    """Take the turn of a task that has ended before; None where none is due, or another seq is to work on it."""
    found = sa.select(tasks).where(tasks.c.id == task_id, tasks.c.seq == seq)
    row = connection.execute(found.with_for_update()).mappings().first()
    thread = None if row is None else held(connection, task_id)
    if row is None or thread is None or thread.status != WORKING or thread.turn == 1:
        return None
    connection.execute(tasks.update().where(tasks.c.id == task_id).values(owner=owner, updated_at=now))
    return claimed_task(connection, dict(row), thread.turn)


def finish_turn(connection: sa.Connection, task_id: str) -> None:
    """Nobody works on the task any more; whoever did has told its last."""
    connection.execute(tasks.update().where(tasks.c.id == task_id).values(owner=None, activity=None))


def worked_on(connection: sa.Connection, task_id: str) -> bool:
    """Whether somebody works on the task now."""
    found = sa.select(tasks.c.id).where(tasks.c.id == task_id, tasks.c.owner.is_not(None))
    return connection.execute(found).first() is not None


def ask_to_stop(connection: sa.Connection, task_id: str, now: datetime) -> None:
    """Ask whoever works on a turn to stop."""
    connection.execute(tasks.update().where(tasks.c.id == task_id).values(cancel_requested_at=now))


def quiet_turns(connection: sa.Connection, *, since: datetime) -> list[tuple[str, int]]:
    """Turns after the first that are due or under way and have not moved since then."""
    query = (
        sa.select(tasks.c.id, tasks.c.seq)
        .join(threads, threads.c.task_id == tasks.c.id)
        .where(threads.c.status == WORKING, threads.c.turn > 1, tasks.c.updated_at < since)
    )
    return [(row[0], row[1]) for row in connection.execute(query.order_by(tasks.c.id).limit(PAGE))]


def restart_turn(connection: sa.Connection, task_id: str, seq: int, now: datetime) -> int | None:
    """A new place for a turn that lost its own; None when it moved meanwhile or has had its share of places."""
    row = connection.execute(
        tasks.update()
        .where(tasks.c.id == task_id, tasks.c.seq == seq, tasks.c.restarts < MOST_RESTARTS)
        .values(seq=seq + 1, restarts=tasks.c.restarts + 1, owner=None, updated_at=now)
        .returning(tasks.c.seq)
    ).first()
    return None if row is None else int(row[0])


def say(
    connection: sa.Connection,
    task_id: str,
    ts: str,
    *,
    user: str,
    said: Mapping[str, Any],
    delivery_id: str,
    now: datetime,
) -> bool:
    """Hand a message to the task; False where it has it."""
    row = {
        "task_id": task_id,
        "ts": ts,
        "delivery_id": delivery_id,
        "user": user,
        "said": dict(said),
        "created_at": now,
    }
    return connection.execute(insert_once(connection, thread_messages), row).rowcount > 0


def said_in(connection: sa.Connection, task_id: str, ts: str) -> SaidRow | None:
    """One message of the thread, where it was handed to the task."""
    found = sa.select(*_SAID).where(thread_messages.c.task_id == task_id, thread_messages.c.ts == ts)
    row = connection.execute(found).first()
    return None if row is None else SaidRow(*row)


def untold(connection: sa.Connection, task_id: str) -> list[SaidRow]:
    """The messages that no round has been told of, the oldest first."""
    query = sa.select(*_SAID).where(thread_messages.c.task_id == task_id, thread_messages.c.round.is_(None))
    return [SaidRow(*row) for row in connection.execute(query.order_by(thread_messages.c.ts))]


def mark_told(connection: sa.Connection, task_id: str, keys: Sequence[str], number: int) -> None:
    """These messages (by ts) were told before the round with this number."""
    if keys:
        those = (thread_messages.c.task_id == task_id, thread_messages.c.ts.in_(keys))
        connection.execute(thread_messages.update().where(*those).values(round=number))
