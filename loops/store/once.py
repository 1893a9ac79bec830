"""INSERT … ON CONFLICT, which each dialect spells by itself. Built once: the statements run for every run."""

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert_once(connection: sa.Connection, table: sa.Table) -> sa.Executable:
    """Inserts a row unless its key is there; the row count tells."""
    return _once(connection.dialect.name, table)


def insert_or_set(
    connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], kept: tuple[str, ...] = ()
) -> sa.Executable:
    """Inserts a row, or sets these columns of the one with its primary key; `kept` are set only to what is not null."""
    return _or_set(connection.dialect.name, table, columns, kept)


@cache
def _once(dialect: str, table: sa.Table) -> sa.Executable:
    # Without being asked to keep it, SQLAlchemy tells -1 for the row count of an INSERT on Postgres.
    return _insert(dialect, table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


@cache
def _or_set(dialect: str, table: sa.Table, columns: tuple[str, ...], kept: tuple[str, ...]) -> sa.Executable:
    insert = _insert(dialect, table)
    values: dict[str, sa.ColumnElement[Any]] = {name: insert.excluded[name] for name in columns}
    values |= {name: sa.func.coalesce(insert.excluded[name], table.c[name]) for name in kept}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=values)


def _insert(dialect: str, table: sa.Table) -> "postgresql.Insert | sqlite.Insert":
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
