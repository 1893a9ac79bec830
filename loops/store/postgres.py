"""Postgres: accepts grouped on one connection, everything else on a pool."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from loops.ports import DeliveryRow, Receipt
from loops.store.accepting import COLUMNS, EPOCH, GIVEN, Packing, settled
from loops.store.lane import Lane, Waiting
from loops.store.outage import busy, is_deadlock, is_outage, unstorable
from loops.threads import on_own_thread

T = TypeVar("T")

_TYPES = {
    "connection_id": "int",
    "received_at": "bigint",
    "verified": "bool",
    "body": "bytea",
    "size": "int",
    "unheard": "int",
}
# One statement a group, whatever its size; COPY cannot say ON CONFLICT. The epoch is read by the statement itself.
_ARRAYS = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in DeliveryRow._fields)
_VALUES = ", ".join(settled(name, f"u.{name}", "u.unheard") for name in GIVEN)
_INSERT = (
    f"INSERT INTO loops_deliveries ({', '.join(COLUMNS)}) "  # noqa: S608 - our own column names
    f"SELECT {_VALUES}, ({EPOCH}), 0, 0 FROM unnest({_ARRAYS}) AS u({', '.join(DeliveryRow._fields)}) "
    "ON CONFLICT DO NOTHING RETURNING id"
)
_KNOWN = (
    "SELECT d.connection_id, d.key, d.id FROM loops_deliveries d "
    "JOIN unnest(%s::int[], %s::text[]) AS u(connection_id, key) USING (connection_id, key)"
)
# A sender waits ten seconds for its answer: one that cannot be had is better known sooner.
_CONNECT_SECONDS = "5"
_DEADLOCKS = 3


def connect(url: str, **options: Any) -> sa.Engine:  # noqa: ANN401
    """An engine that checks a pooled connection before it hands it out."""
    # Values are not for logs and error messages: they may hold what people wrote.
    return sa.create_engine(_patient(url), pool_pre_ping=True, hide_parameters=True, **options)


def _patient(url: str) -> sa.URL:
    made = sa.make_url(url)
    return made if "connect_timeout" in made.query else made.update_query_dict({"connect_timeout": _CONNECT_SECONDS})


class PostgresWriter:
    """The Writer on Postgres."""

    def __init__(self, url: str, *, threads: int = 8) -> None:
        self._url = _patient(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._accepting: psycopg.Connection[Any] | None = None
        self._packing = Packing()
        self._lane = Lane("loops-accept", self._transact, close=self._close)
        self._engine = connect(url, pool_size=threads, max_overflow=0)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="loops-writer")
        self.transactions = 0

    @property
    def depth(self) -> int:
        """How many deliveries wait to be accepted."""
        return self._lane.depth

    def accept(self, row: DeliveryRow) -> "asyncio.Future[Receipt]":
        """See Writer.accept."""
        return self._lane.accept(row)

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        """See Writer.run."""
        self._lane.check_open()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, fn)

    def _run(self, fn: Callable[[sa.Connection], T], again: int = _DEADLOCKS) -> T:
        try:
            with self._engine.begin() as connection:
                result = fn(connection)
        except DBAPIError as error:
            if again and is_deadlock(error):  # the other one goes on, so a second try comes after it
                return self._run(fn, again - 1)
            if is_outage(error):
                raise busy(error) from error
            raise
        self.transactions += 1
        return result

    async def aclose(self) -> None:
        """Finish what waits and close the connections."""
        await self._lane.aclose()
        await on_own_thread(self._threads.shutdown)
        self._engine.dispose()

    def _close(self) -> None:
        if self._accepting is not None:
            self._accepting.close()
            self._accepting = None

    def _transact(self, rows: list[Waiting], closures: list[Waiting]) -> None:
        kept = self._accepting
        try:
            self._group(rows)
        except (psycopg.Error, ValueError, OverflowError) as error:
            if not is_outage(error):
                raise unstorable(error) from error
            self._close()
            if kept is None:
                raise busy(error) from error
            # The connection had been opened for an earlier group, and may have been lost long ago: once more.
            self._transact(rows, closures)

    def _group(self, rows: list[Waiting]) -> None:
        if self._accepting is None:
            self._accepting = psycopg.connect(self._url)
        with self._accepting.transaction(), self._accepting.cursor() as cursor:
            self._accept(cursor, rows)
        self.transactions += 1

    def _accept(self, cursor: "psycopg.Cursor[Any]", rows: list[Waiting]) -> None:
        deliveries = [one.row for one in rows if one.row is not None]
        packed = self._packing.bodies(deliveries)
        stored = [row._replace(body=bytes(body)) for row, body in zip(deliveries, packed, strict=True)]
        cursor.execute(_INSERT, [list(column) for column in zip(*stored, strict=True)])
        fresh = {found[0] for found in cursor.fetchall()}
        missing = [row for row in deliveries if row.id not in fresh]
        known: dict[tuple[int, str], str] = {}
        if missing:
            cursor.execute(_KNOWN, ([row.connection_id for row in missing], [row.key for row in missing]))
            known = {(found[0], found[1]): found[2] for found in cursor.fetchall()}
        for one, row in zip(rows, deliveries, strict=True):
            there = row.id if row.id in fresh else known[row.connection_id, row.key]
            one.result = Receipt(there, new=there == row.id)  # known as itself: a commit whose answer was lost


class PostgresReader:
    """The Reader on Postgres."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        # One snapshot a transaction, however many statements it reads with.
        snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._engine = connect(url, pool_size=threads, max_overflow=0, execution_options=snapshot)
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
