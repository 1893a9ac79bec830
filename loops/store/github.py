"""What is known of GitHub's repositories, as SQL over a connection inside the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from loops.own_output import OwnMark
from loops.store.github_tables import pushed_heads, repository_names
from loops.store.once import insert_once
from loops.store.tables import deliveries, epochs, runs

NAMES = "repository-names"
_RIGHTS = "github-rights"
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SeenName:
    """A repository's name, in lower case, as deliveries of a connection have it."""

    connection_id: int
    repository_id: int
    name: str


# Read for every batch of deliveries: building a statement costs more than SQLite takes to answer it.
_EPOCH = sa.select(epochs.c.value).where(epochs.c.name == sa.bindparam("epoch"))
_SEEN = [repository_names.c[name] for name in SeenName.__dataclass_fields__]


def epoch_of(connection: sa.Connection, name: str) -> int:
    """How often something changed; 0 where it never did."""
    return connection.execute(_EPOCH, {"epoch": name}).scalar() or 0


def bump(connection: sa.Connection, name: str) -> int:
    """Count a change; the new epoch."""
    connection.execute(insert_once(connection, epochs), {"name": name, "value": 0})
    value: int = connection.execute(
        epochs.update().where(epochs.c.name == name).values(value=epochs.c.value + 1).returning(epochs.c.value)
    ).scalar_one()
    return value


def rights_epoch(connection_id: int) -> str:
    """The name of the epoch that counts what may have changed somebody's rights, as a connection heard of it."""
    return f"{_RIGHTS}:{connection_id}"


def keep_names(connection: sa.Connection, seen: Sequence[SeenName], now: datetime) -> None:
    """Store names that are new, in the order in which they were seen."""
    number = bump(connection, NAMES)
    for one in seen:
        row = {"connection_id": one.connection_id, "repository_id": one.repository_id, "name": one.name}
        connection.execute(insert_once(connection, repository_names), {**row, "epoch": number, "seen_at": now})


def names_since(connection: sa.Connection, number: int) -> list[SeenName]:
    """The names stored after an epoch, in the order in which they were seen."""
    query = sa.select(*_SEEN).where(repository_names.c.epoch > number)
    rows = connection.execute(query.order_by(repository_names.c.epoch, repository_names.c.seen_at))
    return [SeenName(*row) for row in rows]


def names_of(connection: sa.Connection, connection_id: int, limit: int) -> list[SeenName]:
    """The names that deliveries of a connection had, the newest first."""
    query = sa.select(*_SEEN).where(repository_names.c.connection_id == connection_id)
    rows = connection.execute(query.order_by(repository_names.c.seen_at.desc()).limit(limit))
    return [SeenName(*row) for row in rows]


def other_names(connection: sa.Connection, seen: SeenName) -> tuple[str, ...]:
    """The other names of a repository under which no other was seen since, in the order in which they were seen."""
    rows = connection.execute(
        sa.select(repository_names.c.name, repository_names.c.epoch)
        .where(
            repository_names.c.connection_id == seen.connection_id,
            repository_names.c.repository_id == seen.repository_id,
            repository_names.c.name != seen.name,
        )
        .order_by(repository_names.c.epoch)
    ).all()
    return tuple(name for name, epoch in rows if not _taken(connection, seen, name, epoch))


def _taken(connection: sa.Connection, seen: SeenName, name: str, epoch: int) -> bool:
    query = sa.select(repository_names.c.repository_id).where(
        repository_names.c.connection_id == seen.connection_id,
        repository_names.c.name == name,
        repository_names.c.repository_id != seen.repository_id,
        repository_names.c.epoch > epoch,
    )
    return connection.execute(query.limit(1)).first() is not None


def keep_head(connection: sa.Connection, repository_id: int, sha: str, mark: OwnMark, now: datetime) -> None:
    """Note a commit before it is pushed, so that the delivery that tells of it is known as own."""
    row = {"repository_id": repository_id, "sha": sha, "run_id": mark.run_id, "hop": mark.hop, "created_at": now}
    connection.execute(insert_once(connection, pushed_heads), row)


def pushed_by(connection: sa.Connection, repository_id: int, sha: str) -> OwnMark | None:
    """The run of ours that pushed a commit; None where none did."""
    row = connection.execute(
        sa.select(pushed_heads.c.run_id, pushed_heads.c.hop).where(
            pushed_heads.c.repository_id == repository_id, pushed_heads.c.sha == sha
        )
    ).first()
    return None if row is None else OwnMark(row[0], row[1])


def events_that_ran(connection: sa.Connection, project_id: str, subject: str, event_uuid: str, since: datetime) -> int:
    """How many other events of a subject started runs since then. A run has the subject where it counts: that of one
    delivery that a person played again has none."""
    query = sa.select(sa.func.count(runs.c.event_uuid.distinct())).where(
        runs.c.project_id == project_id,
        runs.c.subject == subject,
        runs.c.created_at > since,
        runs.c.event_uuid != event_uuid,
    )
    count: int = connection.execute(query).scalar_one()
    return count


def accepted_keys(connection: sa.Connection, connection_id: int, keys: Sequence[str]) -> set[str]:
    """Which of the sender's ids this connection has accepted."""
    query = sa.select(deliveries.c.key).where(deliveries.c.connection_id == connection_id, deliveries.c.key.in_(keys))
    return {row[0] for row in connection.execute(query)}
