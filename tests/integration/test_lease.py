"""Leases and the reaper, on SQLite and on Postgres."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from loops.errors import Conflict, StoreBusy
from loops.ports import DeliveryRow, Receipt
from loops.runs import lease
from loops.runs.lease import Leaseholder, SingleProcessLock, bury, living, release, renew
from loops.store.columns import database_now
from loops.store.database import Database, open_database
from loops.store.tables import leases
from tests.integration.running import eventually

T = TypeVar("T")


class Host:
    """An engine that notes what it was told to recover."""

    executor_id = "me"

    def __init__(self) -> None:
        self.recovered: list[set[str]] = []

    async def recover(self, dead: Collection[str]) -> int:
        if dead:
            self.recovered.append(set(dead))
        return len(dead)


class Client:
    """An engine whose segments are held by these executors."""

    def __init__(self, *holders: str) -> None:
        self.held = set(holders)
        self.away = 0

    async def holders(self) -> set[str]:
        if self.away:
            self.away -= 1
            raise StoreBusy("away")
        return self.held


class Failing:
    """A writer that cannot write, or never answers."""

    def __init__(self, *, hangs: bool = False) -> None:
        self._hangs = hangs

    async def accept(self, row: DeliveryRow) -> Receipt:
        raise StoreBusy("away")

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        if self._hangs:
            await asyncio.sleep(60)
        raise StoreBusy("away")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = open_database(database_url)
    yield opened
    await opened.aclose()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease, "_SURRENDER_SECONDS", 0.3)


def holder(database: Database, **given: Any) -> Leaseholder:
    """A worker's leaseholder over doubles of the engine."""
    writer, host, client = (
        given.pop("writer", database.writer),
        given.pop("host", Host()),
        given.pop("client", Client()),
    )
    settled: dict[str, Any] = {"role": "worker", "single": False, "on_lost": lambda: None, **given}
    return Leaseholder(host, client, writer, database.reader, **settled)


async def alive(database: Database) -> set[str]:
    return await database.reader.read(living)


async def expire(database: Database, executor: str, by: timedelta = timedelta(seconds=1)) -> None:
    def change(connection: sa.Connection) -> None:
        past = database_now(connection) - by
        connection.execute(leases.update().where(leases.c.executor_id == executor).values(expires_at=past))

    await database.writer.run(change)


async def test_who_renews_is_alive_until_the_lease_expires_or_is_given_back(database):
    for name in ("one", "two"):
        await database.writer.run(lambda connection, name=name: renew(connection, name, "worker"))
    assert await alive(database) == {"one", "two"}
    await expire(database, "one")
    await database.writer.run(lambda connection: release(connection, "two"))
    assert await alive(database) == set()
    await database.writer.run(lambda connection: renew(connection, "one", "worker"))
    assert await alive(database) == {"one"}


async def test_leases_that_expired_long_ago_are_buried_and_no_others(database):
    for name in ("new", "expired", "ancient"):
        await database.writer.run(lambda connection, name=name: renew(connection, name, "worker"))
    await expire(database, "expired")
    await expire(database, "ancient", timedelta(hours=1))
    await database.writer.run(bury)
    found = await database.reader.read(lambda c: c.execute(sa.select(leases.c.executor_id)).scalars().all())
    assert sorted(found) == ["expired", "new"]


async def test_what_the_dead_hold_is_recovered_and_nothing_of_the_living_or_of_ones_own(database):
    host = Host()
    for name in ("me", "living", "dead"):
        await database.writer.run(lambda connection, name=name: renew(connection, name, "worker"))
    await expire(database, "dead")
    counted: list[int] = []
    client = Client("me", "living", "dead", "never seen")
    one = holder(database, host=host, client=client, on_recovered=counted.append)
    assert await one.reap() == 2
    assert host.recovered == [{"dead", "never seen"}]
    assert counted == [2]
    assert await holder(database, host=host, client=Client("me", "living")).reap() == 0
    assert host.recovered == [{"dead", "never seen"}]


async def test_the_only_process_buries_every_lease_when_it_begins_and_looks_once(database):
    await database.writer.run(lambda connection: renew(connection, "before", "all"))
    host = Host()
    one = holder(database, host=host, client=Client("before"), single=True)
    await one.begin()
    assert await alive(database) == {"me"}
    await asyncio.wait_for(one.watch(), 10)
    await asyncio.wait_for(one.beat(), 10)
    assert host.recovered == [{"before"}]
    await one.end()
    assert await alive(database) == set()


async def test_looking_for_the_dead_goes_on_after_the_database_was_away(database, quick):
    host, client = Host(), Client("dead")
    client.away = 3
    watching = asyncio.ensure_future(holder(database, host=host, client=client).watch())
    while not host.recovered:
        assert not watching.done()
        await asyncio.sleep(0.02)
    watching.cancel()
    assert host.recovered[0] == {"dead"}


async def test_a_process_prolongs_its_lease_again_and_again_while_it_beats(database, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    one = holder(database)
    await one.begin()
    beating = asyncio.ensure_future(one.beat())
    known = {await expiry(database)}
    for _ in range(3):
        known.add(await eventually(lambda: expiry(database), lambda now: now > max(known)))
    beating.cancel()
    assert len(known) == 4


async def expiry(database: Database) -> datetime:
    query = sa.select(leases.c.expires_at).where(leases.c.executor_id == "me")
    found: datetime = await database.reader.read(lambda connection: connection.execute(query).scalar_one())
    return found


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "does not answer"])
async def test_a_process_that_cannot_renew_gives_up_before_others_take_over(database, quick, hangs):
    lost: list[bool] = []
    one = holder(database, writer=Failing(hangs=hangs), on_lost=lambda: lost.append(True))
    await asyncio.wait_for(one.beat(), 10)
    assert lost == [True]


def test_one_file_has_one_process(tmp_path):
    first = SingleProcessLock(tmp_path / "loops.db")
    with pytest.raises(Conflict, match="another process"):
        SingleProcessLock(tmp_path / "loops.db")
    SingleProcessLock(tmp_path / "other.db").release()
    first.release()
    SingleProcessLock(tmp_path / "loops.db").release()
