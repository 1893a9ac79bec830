"""Outputs that people have answered, as SQL over a connection inside the caller's transaction.

Whoever sends one for a person has a lease on its row: `sender` until `due_at`, by the database's clock. Its writes are
guarded as those of the worker of a task are; see outputs.hold. Right before each request it asks for its lease again;
see outputs.keep_lease.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import RunFenced
from loops.store import outputs
from loops.store.columns import database_now
from loops.store.output_tables import task_outputs
from loops.store.outputs import OutputRow, this_output, unpacked
from loops.store.task_tables import tasks
from loops.store.tasks import ClaimedTask, claimed_task

_ROW = [task_outputs.c[name] for name in OutputRow.__dataclass_fields__]
_OPEN = ("waiting", "uncertain")


def held(connection: sa.Connection, this: tuple[str, int]) -> OutputRow | None:
    """An output, held with its task until the transaction ends."""
    connection.execute(sa.select(tasks.c.id).where(tasks.c.id == this[0]).with_for_update())
    found = sa.select(*_ROW).where(task_outputs.c.task_id == this[0], task_outputs.c.number == this[1])
    row = connection.execute(found.with_for_update()).first()
    return None if row is None else unpacked(row)


def sent_until(connection: sa.Connection, this: tuple[str, int]) -> datetime | None:
    """Until when somebody has a lease on an output that the caller holds; None where nobody sends it."""
    live = sa.select(task_outputs.c.due_at).where(
        task_outputs.c.task_id == this[0],
        task_outputs.c.number == this[1],
        task_outputs.c.sender.is_not(None),
        task_outputs.c.due_at > database_now(connection),
    )
    until: datetime | None = connection.execute(live).scalar()
    return until


def answered(
    connection: sa.Connection, row: OutputRow, answer: Mapping[str, Any], follows: Mapping[str, Any], now: datetime
) -> OutputRow:
    """Keep what a person said of an output that the caller holds, and the columns that follow from it; how it stands
    then."""
    answers = [*row.answers, dict(answer)]
    values = {**follows, "answers": answers, "updated_at": now}
    connection.execute(this_output((row.task_id, row.number)).values(**values, sender=None))
    return replace(row, **values)


def due(connection: sa.Connection) -> list[tuple[str, int]]:
    """The outputs that somebody has to send now: those that were asked for, and those whose sender died."""
    now = database_now(connection)
    query = sa.select(task_outputs.c.task_id, task_outputs.c.number).where(task_outputs.c.due_at <= now)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(task_outputs.c.due_at).limit(20))]


def take(connection: sa.Connection, this: tuple[str, int], sender: str) -> tuple[ClaimedTask, OutputRow] | None:
    """Take an output that is due, for LEASE, with the task that it is of; None where somebody else did."""
    row = held(connection, this)
    now = database_now(connection)
    task = connection.execute(sa.select(tasks).where(tasks.c.id == this[0])).mappings().first()
    if row is None or task is None or row.due_at is None or row.due_at > now:
        return None
    if row.status not in _OPEN:
        connection.execute(this_output(this).values(due_at=None, sender=None))
        return None
    connection.execute(this_output(this).values(sender=sender, due_at=now + outputs.LEASE))
    return claimed_task(connection, dict(task), row.turn), row


def renew(connection: sa.Connection, this: tuple[str, int], sender: str) -> None:
    """The sender still lives. Raises RunFenced where it has the output no more, or its lease has lapsed."""
    now = database_now(connection)
    mine = this_output(this).where(task_outputs.c.sender == sender, task_outputs.c.due_at > now)
    if not connection.execute(mine.values(due_at=now + outputs.LEASE)).rowcount:
        raise RunFenced(f"output {this[1]} of task {this[0]} is sent by another worker")


def rebase(connection: sa.Connection, this: tuple[str, int], sender: str, base: Mapping[str, Any]) -> None:
    """What the change goes on top of now. Raises RunFenced."""
    mine = this_output(this).where(task_outputs.c.sender == sender)
    if not connection.execute(mine.values(base=dict(base))).rowcount:
        raise RunFenced(f"output {this[1]} of task {this[0]} is sent by another worker")
