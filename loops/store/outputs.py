"""What tasks write outside, as SQL over a connection inside the caller's transaction.

A proposal is `proposed` until the service has dealt with it. It goes to `uncertain` as writing begins, and from there
to `written` or `refused`: who finds one uncertain has to look outside before anything else. `staged` is shown alone.
`waiting` is one that a person wants sent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
import zstandard

from loops.errors import RunFenced
from loops.store.columns import database_now
from loops.store.once import insert_once
from loops.store.output_tables import task_outputs
from loops.store.task_tables import tasks
from loops.store.thread_tables import threads
from loops.store.threads import WORKING

OutputStatus = Literal["proposed", "staged", "refused", "written", "uncertain", "waiting"]

LEASE = timedelta(seconds=30)
"""How long who sends an output for a person has it, unless that is renewed; longer than any one request may take."""
A_TURN = frozenset({"pull_request"})
"""The kinds that are counted a turn: each may have a change. All others are counted a task."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """An output as it stands; `patch` is unpacked. See TaskOutput."""

    task_id: str
    number: int
    key: str
    turn: int
    kind: str
    repository: str
    body: Mapping[str, Any]
    patch: bytes | None
    base: Mapping[str, Any] | None
    branch: str | None
    head: str | None
    status: str
    reason: str
    url: str
    attempts: int
    answers: Sequence[Mapping[str, Any]]
    due_at: datetime | None
    created_at: datetime
    updated_at: datetime


_ROW = [task_outputs.c[name] for name in OutputRow.__dataclass_fields__]


def of_task(connection: sa.Connection, task_id: str) -> list[OutputRow]:
    """What a task asked for, in its order."""
    return of_tasks(connection, [task_id])


def of_tasks(connection: sa.Connection, task_ids: Collection[str]) -> list[OutputRow]:
    """What these tasks asked for, each in its order."""
    if not task_ids:
        return []
    query = sa.select(*_ROW).where(task_outputs.c.task_id.in_(task_ids))
    return [unpacked(row) for row in connection.execute(query.order_by(task_outputs.c.task_id, task_outputs.c.number))]


def unpacked(row: "sa.Row[Any]") -> OutputRow:
    """The row as a value."""
    found = OutputRow(*tuple(row))
    packed, answers = found.patch, found.answers or ()
    patch = None if packed is None else zstandard.ZstdDecompressor().decompress(packed)
    return replace(found, patch=patch, answers=answers)


def add(
    connection: sa.Connection,
    task_id: str,
    owner: str,
    key: str,
    kind: str,
    repository: str,
    body: Mapping[str, Any],
    most: int,
    now: datetime,
    turn: int = 1,
) -> int | None:
    """Store a proposal unless `key` is known; its number, None where the task has `most` of the kind, of A_TURN where
    its turn has. Raises RunFenced."""
    hold(connection, task_id, owner)
    rows = connection.execute(
        sa.select(task_outputs.c.number, task_outputs.c.key, task_outputs.c.kind, task_outputs.c.turn).where(
            task_outputs.c.task_id == task_id
        )
    ).all()
    known = next((row.number for row in rows if row.key == key), None)
    if known is not None:
        return int(known)
    if sum(row.kind == kind and (kind not in A_TURN or row.turn == turn) for row in rows) >= most:
        return None
    number = 1 + max((row.number for row in rows), default=0)
    row = {
        "task_id": task_id, "number": number, "key": key, "turn": turn, "kind": kind, "repository": repository,
        "body": dict(body), "patch": None, "base": None, "branch": None, "head": None, "status": "proposed",
        "reason": "", "url": "", "attempts": 0, "created_at": now, "updated_at": now,
    }  # fmt: skip
    connection.execute(insert_once(connection, task_outputs), row)
    return number


def hold(connection: sa.Connection, task_id: str, owner: str) -> None:
    """Let nobody else take over the task, or an output of it that `owner` sends for a person, until the transaction
    ends. Raises RunFenced where somebody has."""
    held = sa.select(tasks.c.owner).where(tasks.c.id == task_id).with_for_update()
    if connection.execute(held).scalar() == owner:
        return
    # A statement of its own: what the one above waited for is not in its snapshot.
    sends = sa.select(task_outputs.c.number).where(task_outputs.c.task_id == task_id, task_outputs.c.sender == owner)
    if connection.execute(sends).first() is None:
        raise RunFenced(f"task {task_id} has been taken over by another worker")


def keep_lease(connection: sa.Connection, row: tuple[str, int], owner: str) -> None:
    """Right before a request: `owner` still has the output, and for LEASE from now on where it sends it for a person.
    Raises RunFenced, also where that lease has lapsed and nobody has taken it yet."""
    hold(connection, row[0], owner)
    now = database_now(connection)
    sends = (task_outputs.c.task_id == row[0], task_outputs.c.number == row[1], task_outputs.c.sender == owner)
    lapsed = sa.select(task_outputs.c.number).where(*sends, task_outputs.c.due_at <= now)
    if connection.execute(lapsed).first() is not None:
        raise RunFenced(f"the lease on output {row[1]} of task {row[0]} has lapsed")
    connection.execute(task_outputs.update().where(*sends).values(due_at=now + LEASE))


def writing_again(connection: sa.Connection, row: tuple[str, int], owner: str, now: datetime) -> None:
    """Say that another request goes out for an output whose writing began. Raises RunFenced."""
    keep_lease(connection, row, owner)
    connection.execute(this_output(row).values(updated_at=now))


def keep_patch(
    connection: sa.Connection,
    row: tuple[str, int],
    owner: str,
    patch: bytes,
    base: Mapping[str, Any],
    now: datetime,
) -> None:
    """Store the change that a pull request is to hold. Raises RunFenced."""
    hold(connection, row[0], owner)
    packed = zstandard.ZstdCompressor(level=3).compress(patch)
    connection.execute(this_output(row).values(patch=packed, base=dict(base), updated_at=now))


def keep_head(
    connection: sa.Connection, row: tuple[str, int], owner: str, branch: str, head: str, now: datetime
) -> None:
    """Say where a change is about to be pushed, and which commit. Raises RunFenced."""
    keep_lease(connection, row, owner)
    connection.execute(this_output(row).values(branch=branch, head=head, updated_at=now))


def move(
    connection: sa.Connection,
    row: tuple[str, int],
    owner: str,
    status: OutputStatus,
    now: datetime,
    *,
    reason: str = "",
    url: str = "",
    begins: bool = False,
) -> None:
    """Say where an output stands; whether writing `begins` now is counted. Raises RunFenced."""
    if begins:
        keep_lease(connection, row, owner)
    else:
        hold(connection, row[0], owner)
    attempts = task_outputs.c.attempts + int(begins)
    # Who sends it for a person has it until it has come to something.
    rests: Mapping[str, None] = {} if begins else {"sender": None, "due_at": None}
    values = {"status": status, "reason": reason, "url": url, "attempts": attempts, "updated_at": now}
    connection.execute(this_output(row).values(**values, **rests))


def refuse_open(connection: sa.Connection, task_id: str, reason: str, now: datetime) -> None:
    """Nothing of a task is written any more that is not, and why."""
    still = (task_outputs.c.task_id == task_id, task_outputs.c.status == "proposed")
    connection.execute(task_outputs.update().where(*still).values(status="refused", reason=reason, updated_at=now))


def open_tasks(connection: sa.Connection, task_ids: Sequence[str]) -> tuple[set[str], set[str]]:
    """Which of these tasks are under way, and which are known at all."""
    # A later turn works on a task that has ended.
    turns = sa.exists().where(threads.c.task_id == tasks.c.id, threads.c.status == WORKING)
    under_way = sa.or_(tasks.c.finished_at.is_(None), turns).label("under_way")
    rows = connection.execute(sa.select(tasks.c.id, under_way).where(tasks.c.id.in_(task_ids))).all()
    return {row.id for row in rows if row.under_way}, {row.id for row in rows}


def this_output(row: tuple[str, int]) -> sa.Update:
    """A change of one output."""
    return task_outputs.update().where(task_outputs.c.task_id == row[0], task_outputs.c.number == row[1])
