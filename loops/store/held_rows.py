"""Rows that several transactions want at once, and for which none of them waits.

A batch of dispatch lasts as long as all its deliveries, and two batches that wait for each other would never end. Who
cannot have a row now is told so by RowHeld, and comes back.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from loops.errors import RowHeld, StoreBusy
from loops.ports import Writer

T = TypeVar("T")

_LOCK_NOT_AVAILABLE = "55P03"
# How long to wait for whoever is inserting the same row; a lock that is there can be seen without waiting.
_PATIENCE = sa.text("SET LOCAL lock_timeout = '20ms'")
_AS_BEFORE = sa.text("SET LOCAL lock_timeout TO DEFAULT")
_TRIES = 200
_PAUSE = 0.02


def inserted(connection: sa.Connection, statement: sa.Executable, values: Mapping[str, Any]) -> bool:
    """Carry out an insert that does nothing where the row is there; whether it is ours. Raises RowHeld while somebody
    else is about to insert the same."""
    if connection.dialect.name != "postgresql":
        return connection.execute(statement, values).rowcount > 0
    with never_waiting():
        connection.execute(_PATIENCE)
        made = connection.execute(statement, values).rowcount > 0
        connection.execute(_AS_BEFORE)
    return made


@contextmanager
def never_waiting() -> Iterator[None]:
    """Raises RowHeld where a lock was asked for without waiting, and another transaction has it."""
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise RowHeld("another process is deciding on the same key", hint="it is tried again at once") from error


async def once_free(writer: Writer, fn: Callable[[sa.Connection], T]) -> T:
    """Run `fn` in a transaction, again while it meets rows that others hold. Raises StoreBusy after some seconds."""
    for _ in range(_TRIES):
        try:
            return await writer.run(fn)
        except RowHeld:
            await asyncio.sleep(_PAUSE)
    raise StoreBusy("other processes are deciding on the same all the time", hint="send it again")
