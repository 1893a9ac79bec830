"""Persons and groups, as SQL over a connection inside the caller's transaction."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.event import JsonValue
from loops.store.once import insert_once, insert_or_set
from loops.store.people_tables import groups, persons

Key: TypeAlias = tuple[str, ...]
Properties: TypeAlias = Mapping[str, JsonValue]

SEEN_AGAIN = timedelta(days=1)
"""How exactly it is known when somebody was last seen: a row is not written for every event."""

_AT_ONCE = 400


def hold_persons(connection: sa.Connection, project_id: str, ids: Collection[str], now: datetime) -> None:
    """Hold these persons, known or not: until the transaction ends nobody else changes them."""
    _hold(connection, persons, project_id, {(one,) for one in ids}, now)


def hold_groups(connection: sa.Connection, project_id: str, keys: Collection[tuple[str, str]], now: datetime) -> None:
    """Hold these groups, likewise."""
    _hold(connection, groups, project_id, {(one[0], one[1]) for one in keys}, now)


def read_persons(connection: sa.Connection, project_id: str, ids: Collection[str]) -> dict[str, Properties]:
    """The properties of the persons that are known, by distinct id."""
    found = _read(connection, persons, project_id, {(one,) for one in ids})
    return {key[0]: properties for key, properties in found.items()}


def read_groups(
    connection: sa.Connection, project_id: str, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Properties]:
    """The properties of the groups that are known, by type and key."""
    found = _read(connection, groups, project_id, {(one[0], one[1]) for one in keys})
    return {(key[0], key[1]): properties for key, properties in found.items()}


def write_persons(connection: sa.Connection, project_id: str, changed: Mapping[str, Properties], now: datetime) -> None:
    """Store the properties of these persons."""
    _write(connection, persons, project_id, {(one,): properties for one, properties in changed.items()}, now)


def write_groups(
    connection: sa.Connection, project_id: str, changed: Mapping[tuple[str, str], Properties], now: datetime
) -> None:
    """Store the properties of these groups."""
    _write(connection, groups, project_id, {(key[0], key[1]): value for key, value in changed.items()}, now)


def touch(
    connection: sa.Connection,
    project_id: str,
    ids: Collection[str],
    keys: Collection[tuple[str, str]],
    now: datetime,
) -> None:
    """Note that these were seen, where that was not noted within a day."""
    _touch(connection, persons, project_id, {(one,) for one in ids}, now)
    _touch(connection, groups, project_id, {(one[0], one[1]) for one in keys}, now)


def _hold(connection: sa.Connection, table: sa.Table, project_id: str, keys: set[Key], now: datetime) -> None:
    if not keys or connection.dialect.name != "postgresql":
        return  # on SQLite nobody else writes meanwhile
    # Who is not known yet has no row that could be held.
    connection.execute(insert_once(connection, table), [_row(table, project_id, key, {}, now) for key in sorted(keys)])
    # In the order of Python's sort, from part to part and within each: by another collation two could meet crosswise.
    ordered = [column.collate("C") for column in _key_columns(table)]
    for part in _parts(keys):
        query = sa.select(sa.literal(1)).where(_among(table, project_id, part)).order_by(*ordered)
        connection.execute(query.with_for_update(of=table)).all()


def _read(connection: sa.Connection, table: sa.Table, project_id: str, keys: set[Key]) -> dict[Key, Properties]:
    columns = _key_columns(table)
    found: dict[Key, Properties] = {}
    for part in _parts(keys):
        query = sa.select(*columns, table.c.properties).where(_among(table, project_id, part))
        for row in connection.execute(query):
            found[tuple(row[:-1])] = row[-1]
    return found


def _write(
    connection: sa.Connection, table: sa.Table, project_id: str, changed: Mapping[Key, Properties], now: datetime
) -> None:
    if changed:
        rows = [_row(table, project_id, key, properties, now) for key, properties in sorted(changed.items())]
        connection.execute(insert_or_set(connection, table, ("properties", "seen_at")), rows)


def _touch(connection: sa.Connection, table: sa.Table, project_id: str, keys: set[Key], now: datetime) -> None:
    columns = [table.c.project_id, *_key_columns(table)]
    for part in _parts(keys):
        due = sa.select(*columns).where(_among(table, project_id, part), table.c.seen_at < now - SEEN_AGAIN)
        # Whom another transaction holds is seen by it, and need not be waited for.
        free = due.with_for_update(skip_locked=True)
        connection.execute(table.update().where(sa.tuple_(*columns).in_(free)).values(seen_at=now))


def _row(table: sa.Table, project_id: str, key: Key, properties: Properties, now: datetime) -> dict[str, Any]:
    names = [column.name for column in _key_columns(table)]
    told = {"project_id": project_id, "properties": dict(properties), "created_at": now, "seen_at": now}
    return {**told, **dict(zip(names, key, strict=True))}


def _key_columns(table: sa.Table) -> "list[sa.Column[Any]]":
    return [column for column in table.primary_key.columns if column.name != "project_id"]


def _among(table: sa.Table, project_id: str, keys: list[Key]) -> "sa.ColumnElement[bool]":
    columns = _key_columns(table)
    wanted = columns[0].in_([key[0] for key in keys]) if len(columns) == 1 else sa.tuple_(*columns).in_(keys)
    return sa.and_(table.c.project_id == project_id, wanted)


def _parts(keys: Iterable[Key]) -> list[list[Key]]:
    """In order, and few enough for a statement."""
    ordered = sorted(keys)
    return [ordered[start : start + _AT_ONCE] for start in range(0, len(ordered), _AT_ONCE)]
