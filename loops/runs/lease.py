"""Who is alive: a lease a process that works on runs, and the reaper that hands on what the dead held.

The engine does not notice a dead worker by itself. Each worker keeps a row that expires by the database's clock
unless it is renewed; whoever holds segments without a live row is dead. On SQLite there is only one process, which
holds a file lock: everybody else is dead at once.
"""

import asyncio
import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from loops.errors import Conflict, StoreBusy
from loops.ports import Reader, Writer
from loops.runs.engine import EngineClient, EngineHost
from loops.store.columns import database_now, from_micros
from loops.store.tables import leases

log = logging.getLogger("loops.lease")

TTL_SECONDS = 10.0
BEAT_SECONDS = 2.0
# A process that could not renew for this long stops by itself before others take its runs over.
_SURRENDER_SECONDS = 0.6 * TTL_SECONDS


def renew(connection: sa.Connection, executor_id: str, role: str) -> None:
    """Insert or extend this executor's lease."""
    now = database_now(connection)
    expires = from_micros(int((now.timestamp() + TTL_SECONDS) * 1_000_000))
    changed = connection.execute(
        leases.update().where(leases.c.executor_id == executor_id).values(expires_at=expires)
    ).rowcount
    if not changed:
        connection.execute(
            leases.insert().values(
                executor_id=executor_id,
                role=role,
                host=socket.gethostname(),
                pid=os.getpid(),
                started_at=now,
                expires_at=expires,
            )
        )


def living(connection: sa.Connection) -> set[str]:
    """The executors whose lease has not expired."""
    now = database_now(connection)
    return set(connection.execute(sa.select(leases.c.executor_id).where(leases.c.expires_at > now)).scalars())


def release(connection: sa.Connection, executor_id: str) -> None:
    """Give the lease back, so that others take over at once."""
    connection.execute(leases.delete().where(leases.c.executor_id == executor_id))


def bury(connection: sa.Connection) -> None:
    """Delete leases that expired long ago."""
    now = database_now(connection)
    long_ago = from_micros(int((now.timestamp() - 100 * TTL_SECONDS) * 1_000_000))
    connection.execute(leases.delete().where(leases.c.expires_at < long_ago))


class SingleProcessLock:
    """Keeps a SQLite database to one engine. Raises Conflict when another process holds it."""

    def __init__(self, database: Path) -> None:
        lock = database.with_name(database.name + ".lock")
        lock.touch(mode=0o600)
        self._file: IO[str] = lock.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise Conflict(
                f"another process runs on {database}; SQLite serves one",
                hint="stop it, or set LOOPS_DATABASE_URL to a postgresql:// database to run several",
            ) from error

    def release(self) -> None:
        """Let the next process in."""
        self._file.close()


class Leaseholder:
    """Beats for this process, and hands on what dead ones held."""

    def __init__(
        self,
        host: EngineHost,
        client: EngineClient,
        writer: Writer,
        reader: Reader,
        *,
        role: str,
        single: bool,
        on_lost: Callable[[], None],
        on_recovered: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._host = host
        self._client = client
        self._writer = writer
        self._reader = reader
        self._role = role
        self._single = single
        self._on_lost = on_lost
        self._on_recovered = on_recovered
        self._renewed = time.monotonic()

    async def begin(self) -> None:
        """Take the lease; must be called before the engine is launched."""
        if self._single:
            await self._writer.run(lambda connection: connection.execute(leases.delete()))
        await self._renew()

    async def _renew(self) -> None:
        asked = time.monotonic()
        await self._writer.run(lambda connection: renew(connection, self._host.executor_id, self._role))
        self._renewed = asked

    async def beat(self) -> None:
        """Renew every two seconds, until cancelled or too late. On SQLite never: the lock is the lease."""
        while not self._single:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                async with asyncio.timeout(BEAT_SECONDS):  # not wait_for: it can swallow a cancellation
                    await self._renew()
            except StoreBusy as error:
                log.warning("cannot renew the lease: %s", error.message)
            except TimeoutError:
                log.warning("cannot renew the lease: the database does not answer")
            if time.monotonic() - self._renewed > _SURRENDER_SECONDS:
                log.critical("the lease could not be renewed in time: this process stops, others take its runs over")
                self._on_lost()
                return

    async def watch(self) -> None:
        """Hand on what dead workers held: now, and where there may be several every two seconds, until cancelled."""
        while True:
            try:
                await self.reap()
            except StoreBusy as error:
                log.warning("cannot look for dead workers: %s", error.message)
            else:
                if self._single:
                    return
            await asyncio.sleep(BEAT_SECONDS)

    async def reap(self) -> int:
        """Queue again what executors without a live lease hold; how many segments."""
        holders = await self._client.holders()
        if not holders - {self._host.executor_id}:
            return 0
        alive = await self._reader.read(living)
        dead = holders - alive - {self._host.executor_id}
        recovered = await self._host.recover(dead)
        if recovered:
            self._on_recovered(recovered)
        if not self._single:
            await self._writer.run(bury)
        return recovered

    async def end(self) -> None:
        """Give the lease back; where that cannot be stored, it expires."""
        try:
            await self._writer.run(lambda connection: release(connection, self._host.executor_id))
        except StoreBusy as error:
            log.warning("cannot give the lease back: %s", error.message)
