"""Databases that can be taken away for a while, and rows to put into them."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import psycopg
import sqlalchemy as sa
from psycopg import sql

from loops.ports import DeliveryRow
from loops.store.ids import new_id

Outage: TypeAlias = Callable[[], AbstractContextManager[None]]

_numbers = itertools.count(1)


def delivery_row(key: str | None = None, **other: object) -> DeliveryRow:
    values: dict[str, object] = {
        "id": new_id(),
        "project_id": "default",
        "connection_id": 1,
        "source": "github",
        "key": key or f"key-{next(_numbers)}",
        "name": "issues",
        "subject": None,
        "received_at": 1_790_000_000_000_000,
        "verified": True,
        "status": "accepted",
        "reason": "",
        "headers": "{}",
        "body": b"body",
        "size": 4,
    }
    return DeliveryRow(**{**values, **other})  # type: ignore[arg-type]


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Somebody else holds the write lock of a SQLite file."""
    other = sqlite3.connect(sa.make_url(url).database or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def terminate(admin_url: str, url: str) -> None:
    """End every session on a Postgres database, as a restart of the server does."""
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (_name(url),))


@contextmanager
def away(admin_url: str, url: str) -> Iterator[None]:
    """A Postgres database that has thrown everybody out and lets nobody in."""
    allow = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    name = sql.Identifier(_name(url))
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(allow.format(name, sql.SQL("false")))
        terminate(admin_url, url)
        try:
            yield
        finally:
            admin.execute(allow.format(name, sql.SQL("true")))


def _name(url: str) -> str:
    return sa.make_url(url).database or ""
