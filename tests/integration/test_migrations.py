"""The schema: made, compared, refused, and made by several processes at once, on SQLite and on Postgres."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from loops.errors import StoreBusy, StoreError
from loops.runs.engine import prepare_engine
from loops.store.database import DEFAULT_PROJECT, _config, engine_for, migrate
from loops.store.schema import metadata
from loops.store.tables import epochs, outbox, projects
from tests.conftest import new_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind in turn: here, the tables are what is tested."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'loops.db'}"
        return
    with new_postgres(request.getfixturevalue("postgres_server")) as url:
        yield url


def tables(url: str) -> set[str]:
    engine = engine_for(url)
    try:
        found = sa.inspect(engine)
        return {name for schema in {None, *_schemas(found)} for name in found.get_table_names(schema)}
    finally:
        engine.dispose()


def _schemas(found: "sa.Inspector") -> set[str]:
    return {name for name in found.get_schema_names() if name == "dbos"}


def differences(url: str) -> list[object]:
    """What the tables in the code have and the database has not, or the reverse."""
    engine = engine_for(url)
    try:
        with engine.connect() as connection:
            dialect = connection.dialect.name
            options = {
                "include_name": _ours,
                "include_object": lambda item, *_: _is_for(item, dialect),
                "compare_type": True,
                "compare_server_default": True,
            }
            context = MigrationContext.configure(connection, opts=options)
            return list(compare_metadata(context, metadata))
    finally:
        engine.dispose()


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or ((name or "").startswith("loops_") and name != "loops_schema")


def _is_for(item: object, dialect: str) -> bool:
    """Whether an index is made on this kind of database at all."""
    wanted = item._ddl_if if isinstance(item, sa.Index) else None
    return wanted is None or wanted.dialect == dialect


def rows(url: str, table: sa.Table) -> list[str]:
    engine = engine_for(url)
    try:
        with engine.begin() as connection:
            return [row[0] for row in connection.execute(sa.select(table).order_by(*table.primary_key.columns))]
    finally:
        engine.dispose()


def test_a_fresh_database_is_what_the_tables_in_the_code_say(database_url):
    migrate(database_url)
    assert differences(database_url) == []
    assert {table.name for table in metadata.sorted_tables} <= tables(database_url)


def test_a_database_of_the_first_release_is_brought_up_to_this_one(database_url):
    engine = engine_for(database_url)
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        assert not sa.inspect(connection).has_table(outbox.name)
    engine.dispose()
    migrate(database_url)
    assert differences(database_url) == []


def test_every_table_of_ours_is_told_from_the_engines_by_its_name():
    assert {table.name for table in metadata.sorted_tables if not table.name.startswith("loops_")} == set()


def test_a_migrated_database_has_its_project_and_its_epoch_once_however_often_it_is_migrated(database_url):
    first = migrate(database_url)
    assert migrate(database_url) == first
    assert rows(database_url, projects) == [DEFAULT_PROJECT]
    assert rows(database_url, epochs) == ["definitions"]


def test_migrating_keeps_what_is_stored(database_url):
    migrate(database_url)
    engine = engine_for(database_url)
    with engine.begin() as connection:
        connection.execute(epochs.update().values(value=41))
    migrate(database_url)
    with engine.begin() as connection:
        assert connection.execute(sa.select(epochs.c.value)).scalar_one() == 41
    engine.dispose()


def test_the_engines_tables_are_left_alone(database_url):
    prepare_engine(database_url)
    before = tables(database_url)
    assert "workflow_status" in before
    migrate(database_url)
    assert differences(database_url) == []
    assert before < tables(database_url)
    prepare_engine(database_url)
    assert differences(database_url) == []


def test_a_database_of_a_newer_release_is_refused_and_left_as_it_is(database_url):
    migrate(database_url)
    engine = engine_for(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE loops_schema SET version_num = '9999'"))
        connection.execute(epochs.delete())
    with pytest.raises(StoreError, match="9999") as refused:
        migrate(database_url)
    assert "newer release" in refused.value.hint
    with engine.begin() as connection:
        assert connection.execute(sa.select(epochs.c.value)).first() is None
        assert connection.execute(sa.text("SELECT version_num FROM loops_schema")).scalar_one() == "9999"
    engine.dispose()


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "loops.db").write_text("this is no database, but a text that is long enough to look at" * 20)
    with pytest.raises(StoreBusy, match="cannot open the database: file is not a database"):
        migrate(f"sqlite:///{tmp_path / 'loops.db'}")


def test_a_server_that_is_not_there_is_told():
    with pytest.raises(StoreBusy, match="cannot open the database") as told:
        migrate("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    assert "LOOPS_DATABASE_URL" in told.value.hint


def test_a_new_file_belongs_to_its_owner_alone(tmp_path):
    file = tmp_path / "folder" / "loops.db"
    migrate(f"sqlite:///{file}")
    assert [path.stat().st_mode & 0o077 for path in (file, file.parent)] == [0, 0]


_START = """
import sys
from loops.runs.engine import prepare_engine
from loops.store.database import migrate
migrate(sys.argv[1])
prepare_engine(sys.argv[1])
"""


def test_several_processes_may_open_a_new_database_at_once(database_url):
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _START, database_url],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(4)
    ]
    told = [process.communicate(timeout=100)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, told
    assert differences(database_url) == []
    assert rows(database_url, projects) == [DEFAULT_PROJECT]
    assert rows(database_url, epochs) == ["definitions"]
    assert "workflow_status" in tables(database_url)
