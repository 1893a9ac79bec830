"""Tasks and their rounds, as SQL: functions over a connection inside the caller's transaction.

Every write of a worker names its `owner`; a worker whose task was taken over changes nothing and gets RunFenced. A
transaction that changes a task and its run takes the run first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound, RunFenced
from loops.event import JsonValue
from loops.store.once import insert_once, insert_or_set
from loops.store.runs import PAGE
from loops.store.tables import events, projects, runs, tokens, workflows
from loops.store.task_tables import task_rounds, tasks

MOST_RESTARTS = 5
OVER: frozenset[str] = frozenset({"completed", "incomplete", "failed", "cancelled"})
# Written out, not bound: SQLite uses a partial index only for a condition that it can read.
_OPEN = tasks.c.status.in_(tuple(sa.literal_column(f"'{name}'") for name in ("queued", "running")))


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be stored."""

    id: str
    project_id: str
    workflow_id: str
    run_id: str
    step_id: str
    key: str
    title: str
    model: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it stands. `cost` is in USD, None where no price is known."""

    id: str
    project_id: str
    workflow_id: str
    run_id: str
    step_id: str
    title: str
    status: str
    ending: str
    reason: str
    model: str
    activity: Mapping[str, Any] | None
    result: Mapping[str, JsonValue] | None
    seq: int
    rounds: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in OVER


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task that a worker now owns: the rounds that were kept, and the body of the event that started its run. Above
    the first `turn` it has ended before, and goes on since somebody said more in its thread. `given` is what its
    equipment had for it when it began, by the name of the equipment."""

    id: str
    project_id: str
    workflow_id: str
    run_id: str
    step_id: str
    model: str
    request: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    event: bytes | None
    cancel_requested: bool
    turn: int = 1
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task ended."""

    status: str
    ending: str
    reason: str
    result: Mapping[str, JsonValue]
    rounds: int
    input_tokens: int
    output_tokens: int
    cost: float | None


_ROW = [tasks.c[name] for name in TaskRow.__dataclass_fields__]


def hold_project(connection: sa.Connection, project_id: str) -> None:
    """Let nobody else create a task in this project until the transaction ends."""
    held = sa.select(projects.c.id).where(projects.c.id == project_id).with_for_update(key_share=True)
    connection.execute(held)


def by_key(connection: sa.Connection, project_id: str, key: str) -> TaskRow | None:
    """The task with this key."""
    row = connection.execute(sa.select(*_ROW).where(tasks.c.project_id == project_id, tasks.c.key == key)).first()
    return None if row is None else TaskRow(*row)


def get(connection: sa.Connection, task_id: str, project_id: str | None = None) -> TaskRow:
    """One task. Raises NotFound."""
    query = sa.select(*_ROW).where(tasks.c.id == task_id)
    if project_id is not None:
        query = query.where(tasks.c.project_id == project_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFound(f"there is no task {task_id!r}")
    return TaskRow(*row)


def request_of(connection: sa.Connection, task_id: str) -> Mapping[str, Any]:
    """What the task's agent began with. Raises NotFound."""
    request: Mapping[str, Any] | None = connection.execute(
        sa.select(tasks.c.request).where(tasks.c.id == task_id)
    ).scalar()
    if request is None:
        raise NotFound(f"there is no task {task_id!r}")
    return request


def created(connection: sa.Connection, column: str, owner: str, since: datetime, most: int) -> list[datetime]:
    """When tasks of a workflow or project (`column`, `owner`) were created after `since`: the newest ones."""
    moments = sa.select(tasks.c.created_at).where(tasks.c[column] == owner, tasks.c.created_at > since)
    return list(connection.execute(moments.order_by(tasks.c.created_at.desc()).limit(most)).scalars())


def open_of(connection: sa.Connection, workflow_id: str) -> int:
    """How many tasks of a workflow are under way."""
    query = sa.select(sa.func.count()).select_from(tasks).where(tasks.c.workflow_id == workflow_id, _OPEN)
    return connection.execute(query).scalar_one()


def owner_can_run(connection: sa.Connection, workflow_id: str) -> bool:
    """Whether who enabled the workflow last still may: a token that was revoked may not."""
    who = connection.execute(sa.select(workflows.c.enabled_by).where(workflows.c.id == workflow_id)).scalar()
    if who is None:
        return False
    revoked = sa.select(tokens.c.id).where(tokens.c.id == who, tokens.c.revoked_at.is_not(None))
    return connection.execute(revoked).first() is None


def insert(connection: sa.Connection, task: NewTask, now: datetime) -> None:
    """Store a task that is to be worked on."""
    row = {
        **{name: getattr(task, name) for name in NewTask.__dataclass_fields__},
        "request": dict(task.request),
        "status": "queued",
        "ending": "",
        "reason": "",
        "seq": 0,
        "restarts": 0,
        "rounds": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "created_at": now,
        "updated_at": now,
    }
    connection.execute(insert_once(connection, tasks), row)


def claim(connection: sa.Connection, task_id: str, seq: int, owner: str, now: datetime) -> ClaimedTask | None:
    """Take the task; None when it is over, or another seq is to work on it."""
    found = (tasks.c.id == task_id, tasks.c.seq == seq, _OPEN)
    row = connection.execute(sa.select(tasks).where(*found).with_for_update()).mappings().first()
    if row is None:
        return None
    began = sa.func.coalesce(tasks.c.started_at, sa.literal(now, tasks.c.started_at.type))
    connection.execute(
        tasks.update()
        .where(tasks.c.id == task_id)
        .values(status="running", owner=owner, started_at=began, updated_at=now)
    )
    return claimed_task(connection, dict(row))


def claimed_task(connection: sa.Connection, row: Mapping[str, Any], turn: int = 1) -> ClaimedTask:
    """The task of a row, as who has claimed it needs it."""
    task_id, asked = row["id"], row["cancel_requested_at"] is not None
    return ClaimedTask(
        id=task_id,
        project_id=row["project_id"],
        workflow_id=row["workflow_id"],
        run_id=row["run_id"],
        step_id=row["step_id"],
        model=row["model"],
        request=row["request"],
        rounds=rounds(connection, task_id),
        event=event_of(connection, row["run_id"]),
        cancel_requested=asked or (turn == 1 and _run_asked(connection, row["run_id"])),
        turn=turn,
        given=row["given"] or {},
    )


def _run_asked(connection: sa.Connection, run_id: str) -> bool:
    query = sa.select(runs.c.id).where(runs.c.id == run_id, runs.c.cancel_requested_at.is_not(None))
    return connection.execute(query).first() is not None


def event_of(connection: sa.Connection, run_id: str) -> bytes | None:
    """The packed event that started a run; None where it is not kept any more."""
    same = (
        events.c.project_id == runs.c.project_id,
        events.c.source == runs.c.source,
        events.c.uuid == runs.c.event_uuid,
    )
    body: bytes | None = connection.execute(
        sa.select(events.c.body).join(runs, sa.and_(*same)).where(runs.c.id == run_id)
    ).scalar()
    return body


def rounds(connection: sa.Connection, task_id: str, *, after: int = 0) -> list[Mapping[str, Any]]:
    """The rounds that were kept, with numbers above `after`."""
    query = sa.select(task_rounds.c.body).where(task_rounds.c.task_id == task_id, task_rounds.c.number > after)
    return list(connection.execute(query.order_by(task_rounds.c.number)).scalars())


@dataclass(frozen=True, slots=True)
class Spending:
    """What a task has used up to a round, that round included. `cost` is None where a price is unknown."""

    input_tokens: int
    output_tokens: int
    cost: float | None


def keep_round(
    connection: sa.Connection,
    task_id: str,
    owner: str,
    number: int,
    body: Mapping[str, Any],
    spent: Spending,
    now: datetime,
) -> None:
    """Keep a round, in place of one with its number. Raises RunFenced."""
    values = {
        "rounds": number,
        "activity": None,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": spent.cost,
    }
    _guarded(connection, task_id, owner, values, now)
    row = {"task_id": task_id, "number": number, "body": dict(body), "updated_at": now}
    connection.execute(insert_or_set(connection, task_rounds, ("body", "updated_at")), row)


def name_model(connection: sa.Connection, task_id: str, owner: str, model: str, now: datetime) -> None:
    """Say which model works on the task. Raises RunFenced."""
    _guarded(connection, task_id, owner, {"model": model}, now)


def keep_given(
    connection: sa.Connection, task_id: str, owner: str, name: str, given: Mapping[str, Any], now: datetime
) -> None:
    """Keep what a piece of equipment has for the task, so that the task has the same when it is taken up again. Raises
    RunFenced."""
    known = connection.execute(sa.select(tasks.c.given).where(tasks.c.id == task_id)).scalar() or {}
    _guarded(connection, task_id, owner, {"given": {**known, name: dict(given)}}, now)


def tell(connection: sa.Connection, task_id: str, owner: str, activity: Mapping[str, Any], now: datetime) -> None:
    """Say what the task does at this moment. Raises RunFenced."""
    _guarded(connection, task_id, owner, {"activity": dict(activity)}, now)


def finish(connection: sa.Connection, task_id: str, owner: str, end: TaskEnd, now: datetime) -> None:
    """Store the end. Raises RunFenced."""
    _guarded(connection, task_id, owner, {**_end_values(end), "owner": None, "finished_at": now}, now)


def _end_values(end: TaskEnd) -> dict[str, Any]:
    return {
        "status": end.status,
        "ending": end.ending,
        "reason": end.reason,
        "result": dict(end.result),
        "activity": None,
        "rounds": end.rounds,
        "input_tokens": end.input_tokens,
        "output_tokens": end.output_tokens,
        "cost": end.cost,
    }


def _guarded(connection: sa.Connection, task_id: str, owner: str, values: Mapping[str, Any], now: datetime) -> None:
    changed = connection.execute(
        tasks.update()
        .where(tasks.c.id == task_id, tasks.c.owner == owner)  # who has ended it leaves no owner
        .values(updated_at=now, **values)
    )
    if not changed.rowcount:
        raise RunFenced(f"task {task_id} has been taken over by another worker")


def end_queued(connection: sa.Connection, task_id: str, end: TaskEnd, now: datetime) -> bool:
    """End a task that nobody works on yet; False when somebody does, or it is over."""
    free = sa.select(tasks.c.id).where(tasks.c.id == task_id, tasks.c.status == "queued")
    if connection.execute(free.with_for_update(skip_locked=True)).first() is None:
        return False
    connection.execute(
        tasks.update().where(tasks.c.id == task_id).values(updated_at=now, finished_at=now, **_end_values(end))
    )
    return True


def give_up(connection: sa.Connection, task_id: str, seq: int, end: TaskEnd, now: datetime) -> bool:
    """End a task that cannot go on, unless it moved meanwhile; whether it was ended."""
    ended = connection.execute(
        tasks.update()
        .where(tasks.c.id == task_id, tasks.c.seq == seq, _OPEN)
        .values(owner=None, updated_at=now, finished_at=now, **_end_values(end))
    )
    return ended.rowcount > 0


def request_cancel(connection: sa.Connection, task_id: str, now: datetime) -> None:
    """Ask whoever works on the task to stop."""
    connection.execute(
        tasks.update().where(tasks.c.id == task_id, _OPEN).values(cancel_requested_at=now, updated_at=now)
    )


def cancel_requests(connection: sa.Connection, task_ids: Sequence[str]) -> list[str]:
    """Which of these tasks have been asked to stop, themselves or with their run."""
    asked = sa.or_(tasks.c.cancel_requested_at.is_not(None), runs.c.cancel_requested_at.is_not(None))
    query = sa.select(tasks.c.id).join(runs, runs.c.id == tasks.c.run_id, isouter=True)
    return list(connection.execute(query.where(tasks.c.id.in_(task_ids), asked)).scalars())


def quiet(connection: sa.Connection, *, since: datetime, after: str) -> list[tuple[str, int]]:
    """Open tasks with an id above `after` that have not moved since then."""
    found = sa.select(tasks.c.id, tasks.c.seq).where(_OPEN, tasks.c.id > after, tasks.c.updated_at < since)
    rows = connection.execute(found.order_by(tasks.c.id).limit(PAGE))
    return [(row[0], row[1]) for row in rows]


def restart(connection: sa.Connection, task_id: str, seq: int, now: datetime) -> int | None:
    """Have the task worked on under a new seq, after its place in the queue was lost; None when it moved meanwhile or
    has had its share of new places."""
    row = connection.execute(
        tasks.update()
        .where(tasks.c.id == task_id, tasks.c.seq == seq, _OPEN, tasks.c.restarts < MOST_RESTARTS)
        .values(seq=seq + 1, restarts=tasks.c.restarts + 1, owner=None, status="queued", updated_at=now)
        .returning(tasks.c.seq)
    ).first()
    return None if row is None else row[0]


def of_run(connection: sa.Connection, run_id: str) -> list[TaskRow]:
    """The tasks of a run, in the order in which they were created."""
    return [
        TaskRow(*row)
        for row in connection.execute(sa.select(*_ROW).where(tasks.c.run_id == run_id).order_by(tasks.c.id))
    ]


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: str | None = None,
    status: str | None = None,
    workflow_id: str | None = None,
) -> list[TaskRow]:
    """Tasks of a project, the newest first, with ids below `before`."""
    query = sa.select(*_ROW).where(tasks.c.project_id == project_id)
    for column, wanted in ((tasks.c.status, status), (tasks.c.workflow_id, workflow_id)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(tasks.c.id < before)
    return [TaskRow(*row) for row in connection.execute(query.order_by(tasks.c.id.desc()).limit(limit))]
