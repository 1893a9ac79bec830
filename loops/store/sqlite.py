"""SQLite: one writer lane, readers beside it.

WAL with `synchronous=FULL` for what we answer for (deliveries, runs); the engine's own connections use NORMAL, since
a run can be found again from its row. Reading connections are `query_only`.
"""

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from loops.ports import DeliveryRow, Receipt
from loops.store.accepting import COLUMNS, EPOCH, GIVEN, Packing, settled
from loops.store.checkpoint import Checkpointer
from loops.store.lane import Lane, Waiting
from loops.store.outage import busy, is_locked, is_outage, unstorable
from loops.threads import on_own_thread

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000
_LOOK_AGAIN_SECONDS = 0.0005
_WAL_AGAIN_SECONDS = 0.01
_ROW = f"({', '.join(settled(name, '?', '?') for name in GIVEN)}, ({EPOCH}), 0, 0)"
_MOST_ROWS = 64
_STATUS = GIVEN.index("status")


@cache
def _insert_of(count: int) -> str:
    """One statement for a whole group. Every statement gives the interpreter's lock away and has to get it back from a
    busy event loop, which costs more than the rows; and alone it is its own transaction."""
    names = ", ".join(COLUMNS)
    rows = ", ".join([_ROW] * count)
    return f"INSERT INTO loops_deliveries ({names}) VALUES {rows} ON CONFLICT DO NOTHING"  # noqa: S608 - our own names


_KNOWN = "SELECT id FROM loops_deliveries WHERE connection_id = ? AND key = ?"


def connect(
    url: str,
    *,
    synchronous: str,
    begin: Literal["IMMEDIATE", "DEFERRED", "at write"],
    busy_timeout: int = BUSY_TIMEOUT_MS,
    **options: Any,  # noqa: ANN401
) -> sa.Engine:
    """An engine over the file of `url`.

    `begin` says when a transaction takes the write lock: IMMEDIATE at its start, for reading before writing; "at
    write" with its first write, as the durable engine expects; DEFERRED never, on a connection that cannot write.
    """
    # Values are not for logs and error messages: they may hold what people wrote.
    engine = sa.create_engine(
        url, connect_args={"check_same_thread": False, "cached_statements": 256}, hide_parameters=True, **options
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(raw: Any, _record: Any) -> None:  # noqa: ANN401
        raw.isolation_level = "IMMEDIATE" if begin == "at write" else None
        _write_ahead(raw)
        for pragma in (
            f"busy_timeout={busy_timeout}",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            "wal_autocheckpoint=0",  # see loops.store.checkpoint
            "cache_size=-65536",
            f"query_only={'ON' if begin == 'DEFERRED' else 'OFF'}",
        ):
            raw.execute(f"PRAGMA {pragma}").close()

    if begin != "at write":

        @sa.event.listens_for(engine, "begin")
        def start(connection: sa.Connection) -> None:
            connection.exec_driver_sql(f"BEGIN {begin}")

    return engine


def _write_ahead(raw: sqlite3.Connection) -> None:
    """Make the file one with a write-ahead log. While another process does the same, SQLite refuses whatever the busy
    timeout says."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(_WAL_AGAIN_SECONDS)
        else:
            return


def prepare_file(url: str) -> Path:
    """Make the database's folder and file, readable by their owner alone."""
    path = Path(sa.make_url(url).database or "")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)
    return path


class SqliteWriter:
    """The Writer on SQLite."""

    def __init__(self, url: str) -> None:
        self._engine = connect(url, synchronous="FULL", begin="IMMEDIATE", busy_timeout=0, poolclass=StaticPool)
        self._connection: sa.Connection | None = None
        self._packing = Packing()
        self._lane = Lane("loops-writer", self._transact, close=self._close)
        self._checkpointer = Checkpointer(prepare_file(url))
        self.transactions = 0

    @property
    def depth(self) -> int:
        """How many requests wait for the lane."""
        return self._lane.depth

    def accept(self, row: DeliveryRow) -> "asyncio.Future[Receipt]":
        """See Writer.accept."""
        return self._lane.accept(row)

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        """See Writer.run."""
        return await self._lane.run(fn)

    async def aclose(self) -> None:
        """Finish what waits and close the connection."""
        await self._lane.aclose()
        await on_own_thread(self._checkpointer.close)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()

    def _transact(self, rows: list[Waiting], closures: list[Waiting]) -> None:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            if not closures and len(rows) <= _MOST_ROWS:
                self._accept(self._connection, rows)
                self.transactions += 1
                return
            with patiently(self._connection.begin):
                self._accept(self._connection, rows)
                for waiting in closures:
                    if waiting.fn is not None:
                        run_closure(self._connection, waiting, waiting.fn)
            self.transactions += 1
        except (DBAPIError, sqlite3.Error, ValueError, OverflowError) as error:
            if not is_outage(error):
                raise unstorable(error) from error
            self._reset()
            raise busy(error) from error

    def _reset(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

    def _accept(self, connection: sa.Connection, rows: list[Waiting]) -> None:
        raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        deliveries = [one.row for one in rows if one.row is not None]
        if self._insert(raw, deliveries) == len(deliveries):
            for one, row in zip(rows, deliveries, strict=True):
                one.result = Receipt(row.id, new=True)
            return
        for one, row in zip(rows, deliveries, strict=True):
            known = raw.execute(_KNOWN, (row.connection_id, row.key)).fetchone()[0]
            one.result = Receipt(known, new=known == row.id)

    def _insert(self, raw: sqlite3.Connection, deliveries: list[DeliveryRow]) -> int:
        """How many were new."""
        inserted = 0
        for start in range(0, len(deliveries), _MOST_ROWS):
            some = deliveries[start : start + _MOST_ROWS]
            values = itertools.chain.from_iterable(map(_values, some, self._packing.bodies(some)))
            insert = partial(raw.execute, _insert_of(len(some)), list(values))
            inserted += patiently(insert).rowcount
        return inserted


def _values(row: DeliveryRow, body: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a buffer
    """In the order of the question marks of one row."""
    return (*row[:_STATUS], row.unheard, row.status, row.unheard, row.reason, row.headers, body, row.size)


def patiently(attempt: Callable[[], T]) -> T:
    """What an attempt gives that needs the write lock, tried again for as long as somebody else has it.

    SQLite's own waiting sleeps for up to 25 ms and more between two looks; the engine's transactions take one or two.
    """
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return attempt()
        except (sqlite3.OperationalError, DBAPIError) as error:
            if not is_locked(error) or time.monotonic() > until:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def run_closure(connection: sa.Connection, waiting: Waiting, fn: Callable[[sa.Connection], Any]) -> None:
    """One closure in a savepoint: what it raises is its caller's alone, and undoes its own writes alone."""
    savepoint = connection.begin_nested()
    try:
        waiting.result = fn(connection)
    except DBAPIError as error:
        if is_outage(error):
            raise
        savepoint.rollback()
        waiting.error = error
    except BaseException as error:  # noqa: BLE001 - it travels to the caller
        savepoint.rollback()
        waiting.error = error
    else:
        savepoint.commit()


class SqliteReader:
    """The Reader on SQLite: a few threads, each with a connection that cannot write."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self._engine = connect(url, synchronous="NORMAL", begin="DEFERRED", pool_size=threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="loops-reader")

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """See Reader.read."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, fn)

    def _read(self, fn: Callable[[sa.Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                return fn(connection)
        except DBAPIError as error:
            if is_outage(error):
                raise busy(error) from error
            raise

    async def aclose(self) -> None:
        """Finish the reads that run and close the connections."""
        await on_own_thread(self._threads.shutdown)
        self._engine.dispose()
