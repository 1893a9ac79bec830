"""Who looks after the signs in a thread (reaction, progress), as SQL: functions over a connection inside the caller's
transaction. One process at a time shows something in a thread, so nothing is shown twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from loops.store.task_tables import tasks
from loops.store.thread_tables import threads
from loops.store.threads import CLOSED, LISTENING, ThreadRow

LEASE = timedelta(seconds=40)
"""After it whoever shows something is taken for dead: longer than its calls may take."""
_AT_ONCE = 20
UNKNOWN_TS = "?"
"""The ts of a progress message that is being posted, or was when its process died."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What stands in a thread: the outcome of the reaction, and the progress message."""

    reaction: str
    progress_ts: str
    progress_text: str
    progress_turn: int


@dataclass(frozen=True, slots=True)
class Looked:
    """A thread to look after, and what its task does now. `begun`: somebody works on it."""

    row: ThreadRow
    activity: Mapping[str, Any] | None
    begun: bool


_THREAD = [threads.c[name] for name in ThreadRow.__dataclass_fields__]


def any_due(connection: sa.Connection, now: datetime) -> bool:
    """Whether some thread has to be looked after."""
    return connection.execute(sa.select(threads.c.task_id).where(*_due(now)).limit(1)).first() is not None


def _due(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    free = sa.or_(threads.c.showing_until.is_(None), threads.c.showing_until <= now)
    return threads.c.signs_at.is_not(None), threads.c.signs_at <= now, free


def take(connection: sa.Connection, now: datetime) -> list[Looked]:
    """Threads to look after, nobody else's until they are given back. Those that have listened long enough close."""
    over = (threads.c.status == LISTENING, threads.c.listens_until <= now)
    silent = {"status": CLOSED, "reason": "nobody said more", "listens_until": None, "updated_at": now}
    connection.execute(threads.update().where(*over, threads.c.signs_at <= now).values(**silent))
    query = sa.select(threads.c.task_id).where(*_due(now)).order_by(threads.c.signs_at).limit(_AT_ONCE)
    found = list(connection.execute(query.with_for_update(skip_locked=True)).scalars())
    if not found:
        return []
    mine = threads.c.task_id.in_(found)
    connection.execute(threads.update().where(mine).values(showing_until=now + LEASE))
    columns = (*_THREAD, tasks.c.activity, tasks.c.owner)
    rows = connection.execute(
        sa.select(*columns).join(tasks, tasks.c.id == threads.c.task_id, isouter=True).where(mine)
    )
    return [Looked(ThreadRow(*row[:-2]), row[-2], row[-1] is not None) for row in rows]


def posting(connection: sa.Connection, seen: ThreadRow) -> bool:
    """A progress message is about to be posted for the turn that was seen; False where that is over by now."""
    changed = connection.execute(
        threads.update()
        .where(threads.c.task_id == seen.task_id, threads.c.status == seen.status, threads.c.turn == seen.turn)
        .values(progress_ts=UNKNOWN_TS, progress_turn=seen.turn)
    )
    return changed.rowcount > 0


def give_back(connection: sa.Connection, seen: ThreadRow, sign: Sign, again: datetime | None, now: datetime) -> None:
    """Store what stands in the thread. It is looked after `again`, or at once where it moved meanwhile."""
    query = sa.select(threads.c.status, threads.c.turn).where(threads.c.task_id == seen.task_id).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        return
    moved = (row.status, row.turn) != (seen.status, seen.turn)
    connection.execute(
        threads.update()
        .where(threads.c.task_id == seen.task_id)
        .values(
            reaction=sign.reaction,
            progress_ts=sign.progress_ts,
            progress_text=sign.progress_text,
            progress_turn=sign.progress_turn,
            showing_until=None,
            signs_at=now if moved else again,
        )
    )


def put_off(connection: sa.Connection, connection_id: int, until: datetime) -> None:
    """Show nothing over a connection until then: Slack asked for patience."""
    here = (threads.c.connection_id == connection_id, threads.c.signs_at < until)
    connection.execute(threads.update().where(*here).values(signs_at=until))
