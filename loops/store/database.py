"""Opening the database that a URL names: migrated, with its writer and its reader."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from loops.errors import StoreBusy, StoreError
from loops.store import postgres, sqlite
from loops.store.tables import epochs, projects

DEFAULT_PROJECT = "default"
DEFINITIONS = "definitions"
_MIGRATION_LOCK = 0x6C6F6F70  # "loop": one migrating process at a time on Postgres


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated database. `url` is SQLAlchemy's."""

    url: str
    writer: "sqlite.SqliteWriter | postgres.PostgresWriter"
    reader: "sqlite.SqliteReader | postgres.PostgresReader"

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the one-process database."""
        return is_sqlite(self.url)

    async def aclose(self) -> None:
        """Finish what waits, then close every connection."""
        await self.writer.aclose()
        await self.reader.aclose()


def is_sqlite(url: str) -> bool:
    """Whether a database URL names a SQLite file."""
    return sa.make_url(url).get_backend_name() == "sqlite"


def open_database(url: str) -> Database:
    """Migrate and open. Blocks for as long as the migration takes; raises StoreError with what mends it."""
    migrate(url)
    if is_sqlite(url):
        return Database(url, sqlite.SqliteWriter(url), sqlite.SqliteReader(url))
    return Database(url, postgres.PostgresWriter(url), postgres.PostgresReader(url))


def engine_for(url: str) -> sa.Engine:
    """A plain engine for short administrative work, such as migrating."""
    if is_sqlite(url):
        sqlite.prepare_file(url)
        return sqlite.connect(url, synchronous="FULL", begin="IMMEDIATE")
    return postgres.connect(url)


@contextmanager
def looking_into(url: str) -> Iterator[sa.Connection]:
    """A connection that only reads, to a database of whatever release; an SQLite file must be there."""
    engine = sqlite.connect(url, synchronous="NORMAL", begin="DEFERRED") if is_sqlite(url) else postgres.connect(url)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise _cannot_open(error) from error
    finally:
        engine.dispose()


def migrate(url: str) -> str:
    """Bring the schema to this release's revision and return it.

    Raises StoreError when the database was written by a newer release: running on would corrupt what it keeps.
    """
    engine = engine_for(url)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            return _upgrade(connection)
    except DBAPIError as error:
        raise _cannot_open(error) from error
    finally:
        engine.dispose()


def _cannot_open(error: DBAPIError) -> StoreBusy:
    first = str(error.orig).splitlines()[0]
    return StoreBusy(f"cannot open the database: {first}", hint="check LOOPS_DATABASE_URL")


def _upgrade(connection: sa.Connection) -> str:
    config = _config()
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    head = scripts.get_current_head() or ""
    current = current_schema(connection)
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"the database has schema {current}, which this release does not know",
            hint="it was written by a newer release: start that one, or restore a backup",
        )
    if current != head:
        command.upgrade(config, "head")
    _seed(connection)
    return head


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "loops.store:migrations")
    return config


def wanted_schema() -> str:
    """The revision of this release."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def current_schema(connection: sa.Connection) -> str | None:
    """The revision of a database; None where it has no tables of ours."""
    if not sa.inspect(connection).has_table("loops_schema"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM loops_schema")).scalar()
    return found


def _seed(connection: sa.Connection) -> None:
    if connection.execute(sa.select(projects.c.id)).first() is None:
        connection.execute(
            projects.insert().values(
                id=DEFAULT_PROJECT, name=DEFAULT_PROJECT, time_zone="UTC", created_at=datetime.now(UTC)
            )
        )
    if connection.execute(sa.select(epochs.c.name).where(epochs.c.name == DEFINITIONS)).first() is None:
        connection.execute(epochs.insert().values(name=DEFINITIONS, value=1))
