"""Connections and tokens, as SQL over a connection inside the caller's transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from loops.errors import Conflict, NotFound, StoreError
from loops.store.tables import connections, epochs, tokens

EPOCH = "connections"
_LAST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A stored connection; `secrets` is sealed."""

    id: int
    project_id: str
    kind: str
    name: str
    config: Mapping[str, Any]
    secrets: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is kept."""

    id: str
    project_id: str
    name: str
    role: str
    created_at: datetime
    revoked_at: datetime | None


_CONNECTION = [connections.c[name] for name in ConnectionRow.__dataclass_fields__]
_TOKEN = [tokens.c[name] for name in TokenRow.__dataclass_fields__]
# Read for every batch of deliveries.
_BY_ID = sa.select(*_CONNECTION).where(connections.c.id == sa.bindparam("connection"))


def epoch(connection: sa.Connection) -> int:
    """Counts the changes of connections, so that processes know when theirs are stale."""
    return connection.execute(sa.select(epochs.c.value).where(epochs.c.name == EPOCH)).scalar() or 0


def _bump(connection: sa.Connection) -> None:
    changed = connection.execute(epochs.update().where(epochs.c.name == EPOCH).values(value=epochs.c.value + 1))
    if not changed.rowcount:
        connection.execute(epochs.insert().values(name=EPOCH, value=1))


def insert(
    connection: sa.Connection,
    *,
    project_id: str,
    kind: str,
    name: str,
    config: Mapping[str, Any],
    secrets: str,
    now: datetime,
) -> int:
    """Store a new connection; its id. Raises Conflict when the project has one of this kind and name."""
    values = {"project_id": project_id, "kind": kind, "name": name, "config": dict(config), "secrets": secrets}
    taken = sa.select(connections.c.id).where(
        connections.c.project_id == project_id, connections.c.kind == kind, connections.c.name == name
    )
    if connection.execute(taken).first() is not None:
        raise Conflict(f"project {project_id!r} has a {kind} connection named {name!r} already")
    try:
        new: int = connection.execute(
            connections.insert().values(**values, created_at=now, updated_at=now).returning(connections.c.id)
        ).scalar_one()
    except IntegrityError as error:
        raise Conflict(f"project {project_id!r} has a {kind} connection named {name!r} already") from error
    _bump(connection)
    return new


def change(
    connection: sa.Connection, connection_id: int, *, config: Mapping[str, Any], secrets: str, now: datetime
) -> None:
    """Give a connection other settings."""
    values = {"config": dict(config), "secrets": secrets, "updated_at": now}
    connection.execute(connections.update().where(connections.c.id == connection_id).values(**values))
    _bump(connection)


def reseal(connection: sa.Connection, sealed_anew: Callable[[str], str]) -> tuple[int, int]:
    """Seal the secrets of every connection of every project anew; how many were, and how many could not be opened.

    `sealed_anew` raises StoreError where they cannot. What they say stays, so no process has to load them again.
    """
    done = failed = 0
    query = sa.select(connections.c.id, connections.c.secrets).order_by(connections.c.id).with_for_update()
    for connection_id, sealed in connection.execute(query).all():
        try:
            anew = sealed_anew(sealed)
        except StoreError:
            failed += 1
            continue
        connection.execute(connections.update().where(connections.c.id == connection_id).values(secrets=anew))
        done += 1
    return done, failed


def delete(connection: sa.Connection, project_id: str, connection_id: int) -> None:
    """Delete a connection. Raises NotFound."""
    gone = connection.execute(
        connections.delete().where(connections.c.id == connection_id, connections.c.project_id == project_id)
    )
    if not gone.rowcount:
        raise NotFound(f"there is no connection {connection_id} in project {project_id!r}")
    _bump(connection)


def get(connection: sa.Connection, connection_id: int) -> ConnectionRow | None:
    """The connection with this id, in whatever project."""
    if connection_id > _LAST_ID:  # a workflow may name any number, and Postgres fails on one that no column holds
        return None
    row = connection.execute(_BY_ID, {"connection": connection_id}).first()
    return None if row is None else ConnectionRow(*row)


def held(connection: sa.Connection, project_id: str, connection_id: int) -> ConnectionRow:
    """The connection with this id in this project, held until the transaction ends. Raises NotFound."""
    query = sa.select(*_CONNECTION).where(connections.c.id == connection_id, connections.c.project_id == project_id)
    row = connection.execute(query.with_for_update()).first()
    if row is None:
        raise NotFound(f"there is no connection {connection_id} in project {project_id!r}")
    return ConnectionRow(*row)


def held_of_kind(connection: sa.Connection, project_id: str, kind: str) -> list[ConnectionRow]:
    """The connections of this kind in this project, in the order they were made, held until the transaction ends."""
    query = sa.select(*_CONNECTION).where(connections.c.project_id == project_id, connections.c.kind == kind)
    return [ConnectionRow(*row) for row in connection.execute(query.order_by(connections.c.id).with_for_update())]


def listed(connection: sa.Connection, project_id: str, kind: str | None = None) -> list[ConnectionRow]:
    """The connections of a project, in the order they were made."""
    query = sa.select(*_CONNECTION).where(connections.c.project_id == project_id)
    if kind is not None:
        query = query.where(connections.c.kind == kind)
    return [ConnectionRow(*row) for row in connection.execute(query.order_by(connections.c.id))]


def named(connection: sa.Connection, project_id: str, kind: str, name: str) -> ConnectionRow | None:
    """The connection of this kind and name, None where there is none."""
    here = (connections.c.project_id == project_id, connections.c.kind == kind, connections.c.name == name)
    row = connection.execute(sa.select(*_CONNECTION).where(*here)).first()
    return None if row is None else ConnectionRow(*row)


def of_kind(connection: sa.Connection, kind: str) -> list[ConnectionRow]:
    """The connections of this kind of every project, in the order they were made."""
    query = sa.select(*_CONNECTION).where(connections.c.kind == kind).order_by(connections.c.id)
    return [ConnectionRow(*row) for row in connection.execute(query)]


def insert_token(
    connection: sa.Connection, *, token_id: str, project_id: str, name: str, role: str, digest: str, now: datetime
) -> bool:
    """Store a token; False when this id is taken."""
    if connection.execute(sa.select(tokens.c.id).where(tokens.c.id == token_id)).first() is not None:
        return False
    try:
        with connection.begin_nested():
            connection.execute(
                tokens.insert().values(
                    id=token_id, project_id=project_id, name=name, role=role, digest=digest, created_at=now
                )
            )
    except IntegrityError:  # another process inserted it between the look and the insert
        return False
    return True


def token_by_digest(connection: sa.Connection, digest: str) -> TokenRow | None:
    """The token of this digest unless it is revoked. Digests are of random tokens, so a look-up tells nothing."""
    row = connection.execute(sa.select(*_TOKEN).where(tokens.c.digest == digest, tokens.c.revoked_at.is_(None))).first()
    return None if row is None else TokenRow(*row)


def token_by_id(connection: sa.Connection, token_id: str) -> TokenRow | None:
    """The token of this id unless it is revoked."""
    row = connection.execute(sa.select(*_TOKEN).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))).first()
    return None if row is None else TokenRow(*row)


def listed_tokens(connection: sa.Connection, project_id: str) -> list[TokenRow]:
    """The tokens of a project, the newest first."""
    query = sa.select(*_TOKEN).where(tokens.c.project_id == project_id).order_by(tokens.c.created_at.desc())
    return [TokenRow(*row) for row in connection.execute(query)]


def revoke_token(connection: sa.Connection, project_id: str, token_id: str, now: datetime) -> None:
    """Revoke a token. Raises NotFound."""
    gone = connection.execute(
        tokens.update()
        .where(tokens.c.id == token_id, tokens.c.project_id == project_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    if not gone.rowcount:
        raise NotFound(f"there is no token {token_id!r} in project {project_id!r} that could be revoked")
