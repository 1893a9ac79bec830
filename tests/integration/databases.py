"""Fixtures that last as long as a module: a launch of the engine costs seconds."""

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

_numbers = itertools.count(1)

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="module", params=BOTH)
def shared_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty database of each kind in turn, for all tests of a module."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('database') / 'loops.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    name = f"loops_shared_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield server.get_uri(database=name, driver="psycopg")
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def end_sessions(admin_url: str, url: str) -> None:
    """End every session on a Postgres database, as a restart of the server does."""
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (sa.make_url(url).database,)
        )
