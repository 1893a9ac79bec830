"""Deliveries and events, as SQL over a connection inside the caller's transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import zstandard

from loops.errors import Conflict, NotFound
from loops.event import Delivery
from loops.store.once import insert_once, insert_or_set
from loops.store.tables import claims, deliveries, events


@dataclass(frozen=True, slots=True)
class Due:
    """An accepted delivery that a dispatcher has taken, without its body. `progress` tells how far its events are
    decided, None where nothing is."""

    id: str
    project_id: str
    connection_id: int
    source: str
    key: str
    name: str
    subject: str | None
    received_at: datetime
    epoch: int
    verified: bool
    attempts: int
    progress: Mapping[str, Any] | None = None

    def delivery(self, headers: Mapping[str, str], body: bytes) -> Delivery:
        """The delivery with its headers and raw body."""
        return Delivery(
            id=self.id,
            project_id=self.project_id,
            connection_id=self.connection_id,
            source=self.source,
            key=self.key,
            name=self.name,
            received_at=self.received_at,
            headers=headers,
            body=body,
            verified=self.verified,
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a delivery."""

    id: str
    status: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True)
class StoredBody:
    """Headers (JSON) and compressed body of a delivery; no body where it is larger than what was asked for."""

    headers: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event worth keeping."""

    project_id: str
    source: str
    uuid: str
    delivery_id: str
    position: int
    name: str
    verdicts: Sequence[Mapping[str, Any]]
    body: bytes | None
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Brief:
    """What tells in a word what a delivery is about. `body` is compressed, None where it is large or removed."""

    id: str
    source: str
    name: str
    subject: str | None
    body: bytes | None


_DUE = [deliveries.c[name] for name in Due.__dataclass_fields__]
_HEAD = [
    deliveries.c[name]
    for name in (
        "id", "project_id", "connection_id", "source", "key", "name", "subject", "received_at", "verified", "status",
        "reason", "attempts", "size", "runs", "epoch",
    )
]  # fmt: skip


_AT_ONCE = 400
# Of deliveries that bear the same id of the sender's, how many are named.
_MOST_ALIKE = 5
# Written out, not bound: SQLite uses a partial index only for a condition that it can read.
_ACCEPTED: sa.ColumnClause[str] = sa.literal_column("'accepted'")
_again = deliveries.alias("again")


# Built once, as the others here that run for every batch or delivery: building costs more than SQLite takes to answer.
_NOW = sa.bindparam("now", type_=deliveries.c.next_attempt_at.type)
_DUE_NOW = (
    sa.select(*_DUE)
    .where(deliveries.c.status == _ACCEPTED)
    .where(sa.or_(deliveries.c.next_attempt_at.is_(None), deliveries.c.next_attempt_at <= _NOW))
    .where(
        ~sa.exists().where(
            _again.c.status == _ACCEPTED,
            _again.c.next_attempt_at.is_not(None),
            _again.c.next_attempt_at > _NOW,
            _again.c.subject == deliveries.c.subject,
            _again.c.id < deliveries.c.id,
        )
    )
    .order_by(deliveries.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
    .with_for_update(skip_locked=True, of=deliveries)
)
_DUE_BESIDES = _DUE_NOW.where(deliveries.c.source != sa.bindparam("besides", type_=sa.String))
_SETTLE = (
    deliveries.update()
    .where(deliveries.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(
        status=sa.bindparam("settled_as"), reason=sa.bindparam("told"),
        runs=deliveries.c.runs + sa.bindparam("started", type_=sa.Integer), next_attempt_at=None, progress=sa.null(),
    )
)  # fmt: skip
_OWNER = sa.select(claims.c.delivery_id).where(
    claims.c.workflow_id == sa.bindparam("workflow"), claims.c.claim == sa.bindparam("meaning")
)


def due(connection: sa.Connection, now: datetime, limit: int, besides: str = "") -> tuple[list[Due], bool]:
    """Accepted deliveries to dispatch now, oldest first, and whether there may be more; on Postgres nobody else gets
    them meanwhile. Those of the source `besides` are left out.

    A delivery stays behind an earlier one of its subject that has failed and is to be tried again.
    """
    query = _DUE_BESIDES if besides else _DUE_NOW
    told = {"now": now, "most": limit} | ({"besides": besides} if besides else {})
    found = [Due(*row) for row in connection.execute(query, told)]
    taken = _in_order(connection, found) if connection.dialect.name == "postgresql" else found
    return taken, len(found) == limit or len(taken) < len(found)


def _in_order(connection: sa.Connection, taken: list[Due]) -> list[Due]:
    """Without those whose subject has an earlier delivery that another process holds now."""
    subjects = {one.subject for one in taken if one.subject is not None}
    if not subjects:
        return taken
    first = connection.execute(
        sa.select(deliveries.c.subject, sa.func.min(deliveries.c.id))
        .where(deliveries.c.status == _ACCEPTED, deliveries.c.subject.in_(subjects))
        .group_by(deliveries.c.subject)
    )
    ours = {one.id for one in taken}
    behind = {row[0] for row in first if row[1] not in ours}
    return [one for one in taken if one.subject not in behind] if behind else taken


def bodies(connection: sa.Connection, ids: Sequence[str], most_bytes: int | None = None) -> dict[str, StoredBody]:
    """What each delivery came with that still has it, bodies only up to so many bytes. Nothing is decoded here: one
    that is damaged must not stop the others."""
    if not ids:
        return {}
    wanted = sa.true() if most_bytes is None else deliveries.c.size <= most_bytes
    body = sa.case((wanted, deliveries.c.body), else_=None)
    query = sa.select(deliveries.c.id, deliveries.c.headers, body).where(deliveries.c.id.in_(ids))
    rows = connection.execute(query.where(deliveries.c.body.is_not(None)))
    return {row[0]: StoredBody(row[1] or "{}", row[2]) for row in rows}


def briefs(connection: sa.Connection, ids: Sequence[str], most_bytes: int) -> list[Brief]:
    """These deliveries in brief, with the bodies that have at most so many bytes."""
    if not ids:
        return []
    body = sa.case((deliveries.c.size <= most_bytes, deliveries.c.body), else_=None)
    columns = (deliveries.c.id, deliveries.c.source, deliveries.c.name, deliveries.c.subject, body)
    return [Brief(*row) for row in connection.execute(sa.select(*columns).where(deliveries.c.id.in_(ids)))]


def expand(body: bytes) -> bytes:
    """The raw body of a stored one."""
    return zstandard.ZstdDecompressor().decompress(body)


def settle(connection: sa.Connection, settled: Sequence[Settled]) -> None:
    """Store what became of each delivery; most of a batch came to the same, and is one statement."""
    alike: dict[tuple[str, str, int], list[str]] = {}
    for one in settled:
        alike.setdefault((one.status, one.reason, one.runs), []).append(one.id)
    for (status, reason, count), ids in alike.items():
        connection.execute(_SETTLE, {"ids": ids, "settled_as": status, "told": reason, "started": count})


def keep_progress(connection: sa.Connection, delivery_id: str, progress: Mapping[str, Any], runs: int) -> None:
    """Some events of a delivery are decided, and have started so many runs more."""
    connection.execute(
        deliveries.update()
        .where(deliveries.c.id == delivery_id)
        .values(progress=dict(progress), runs=deliveries.c.runs + runs)
    )


def put_off(connection: sa.Connection, delivery_id: str, attempts: int, until: datetime, reason: str) -> None:
    """Try a delivery again later."""
    connection.execute(
        deliveries.update()
        .where(deliveries.c.id == delivery_id)
        .values(attempts=attempts, next_attempt_at=until, reason=reason)
    )


def due_now(connection: sa.Connection, ids: Sequence[str], now: datetime) -> None:
    """What was put off, and is still to be dispatched, is due."""
    connection.execute(
        deliveries.update()
        .where(deliveries.c.id.in_(ids), deliveries.c.status == _ACCEPTED, deliveries.c.next_attempt_at.is_not(None))
        .values(next_attempt_at=now)
    )


def quarantine(connection: sa.Connection, delivery_id: str, attempts: int, reason: str) -> None:
    """Set a delivery aside with its error."""
    connection.execute(
        deliveries.update()
        .where(deliveries.c.id == delivery_id)
        .values(status="quarantined", attempts=attempts, reason=reason, next_attempt_at=None)
    )


def put_event(connection: sa.Connection, row: EventRow, now: datetime) -> None:
    """Store an event, or its new verdicts when it is dispatched again: an event that came before in another delivery is
    shown with this one then. Its body stays for the runs that need it."""
    put_events(connection, [row], now)


def put_events(connection: sa.Connection, rows: Sequence[EventRow], now: datetime) -> None:
    """Store several as `put_event` stores one."""
    changed = ("verdicts", "delivery_id", "position")
    statement = insert_or_set(connection, events, changed, kept=("body", "facts"))
    connection.execute(statement, [_event_values(row, now) for row in rows])


def _event_values(row: EventRow, now: datetime) -> dict[str, Any]:
    return {
        "project_id": row.project_id,
        "source": row.source,
        "uuid": row.uuid,
        "delivery_id": row.delivery_id,
        "position": row.position,
        "name": row.name,
        "created_at": now,
        "verdicts": list(row.verdicts),
        "body": row.body,
        "facts": None if row.facts is None else dict(row.facts),
    }


def brought_by(
    connection: sa.Connection, project_id: str, source: str, uuids: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Which delivery a stored event belongs to, and whether that was verified, by the event's uuid."""
    found: dict[str, tuple[str, bool]] = {}
    for start in range(0, len(uuids), _AT_ONCE):
        rows = connection.execute(
            sa.select(events.c.uuid, events.c.delivery_id, deliveries.c.verified)
            .join(deliveries, deliveries.c.id == events.c.delivery_id)
            .where(events.c.project_id == project_id, events.c.source == source)
            .where(events.c.uuid.in_(uuids[start : start + _AT_ONCE]))
        )
        found |= {row[0]: (row[1], row[2]) for row in rows}
    return found


def claim(connection: sa.Connection, workflow_id: str, meaning: str, delivery_id: str, now: datetime) -> str | None:
    """Claim a fact for a workflow: None when it is ours, else the delivery that had it first."""
    row = {"workflow_id": workflow_id, "claim": meaning, "delivery_id": delivery_id, "created_at": now}
    if connection.execute(insert_once(connection, claims), row).rowcount:
        return None
    owner: str = connection.execute(_OWNER, {"workflow": workflow_id, "meaning": meaning}).scalar_one()
    return None if owner == delivery_id else owner


def claimed(connection: sa.Connection, workflow_id: str, meaning: str, delivery_id: str) -> str | None:
    """The other delivery whose fact a workflow has taken; None where it is ours, or nobody's yet."""
    owner: str | None = connection.execute(_OWNER, {"workflow": workflow_id, "meaning": meaning}).scalar()
    return None if owner == delivery_id else owner


def backlog(connection: sa.Connection) -> int:
    """How many deliveries wait for dispatch."""
    count: int = connection.execute(
        sa.select(sa.func.count()).select_from(deliveries).where(deliveries.c.status == _ACCEPTED)
    ).scalar_one()
    return count


def find(connection: sa.Connection, project_id: str, wanted: str) -> Mapping[str, Any]:
    """The delivery with our id, or else the one with this id of the sender's, which may stand behind its source as in
    `github:0ab5c2f0`. Raises NotFound, and Conflict where several bear the sender's: a sender chooses it freely."""
    query = sa.select(*_HEAD).where(deliveries.c.project_id == project_id)
    row = connection.execute(query.where(deliveries.c.id == wanted)).mappings().first()
    if row is not None:
        return dict(row)
    source, _, key = wanted.partition(":")
    named = sa.or_(deliveries.c.key == wanted, sa.and_(deliveries.c.source == source, deliveries.c.key == key))
    # Also where the source is given: somebody else's id may be all of that text.
    found = [dict(one) for one in connection.execute(_newest(query.where(named))).mappings()]
    if not found:
        raise NotFound(f"there is no delivery {wanted!r} in project {project_id!r}", hint="give our id or the sender's")
    if len(found) > 1:
        several = f"more than {_MOST_ALIKE}" if len(found) > _MOST_ALIKE else str(len(found))
        alike = ", ".join(f"{one['id']} (from {one['source']})" for one in found[:_MOST_ALIKE])
        raise Conflict(f"{several} deliveries bear the sender's id {wanted!r}", hint=f"give our id of one: {alike}")
    return found[0]


def _newest(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(deliveries.c.id.desc()).limit(_MOST_ALIKE + 1)


def load(connection: sa.Connection, delivery_id: str) -> Delivery | None:
    """The whole delivery, None where retention has removed its body."""
    row = connection.execute(sa.select(deliveries).where(deliveries.c.id == delivery_id)).mappings().first()
    if row is None or row["body"] is None:
        return None
    return Delivery(
        id=row["id"],
        project_id=row["project_id"],
        connection_id=row["connection_id"],
        source=row["source"],
        key=row["key"],
        name=row["name"],
        received_at=row["received_at"],
        headers=json.loads(row["headers"] or "{}"),
        body=expand(row["body"]),
        verified=row["verified"],
    )


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: str | None = None,
    status: str | None = None,
    prefix: str | None = None,
) -> list[Mapping[str, Any]]:
    """Deliveries of a project, the newest first, below an id; those whose id, or the sender's, begins with `prefix`."""
    query = sa.select(*_HEAD).where(deliveries.c.project_id == project_id)
    if prefix is not None:
        begins = (column.startswith(prefix, autoescape=True) for column in (deliveries.c.id, deliveries.c.key))
        query = query.where(sa.or_(*begins))
    if before is not None:
        query = query.where(deliveries.c.id < before)
    if status is not None:
        query = query.where(deliveries.c.status == status)
    rows = connection.execute(query.order_by(deliveries.c.id.desc()).limit(limit))
    return [dict(row) for row in rows.mappings()]


def events_of(connection: sa.Connection, delivery_id: str) -> list[Mapping[str, Any]]:
    """The stored events of a delivery with their verdicts, in the order of the delivery."""
    rows = connection.execute(
        sa.select(*(events.c[name] for name in ("uuid", "name", "position", "verdicts", "facts", "created_at")))
        .where(events.c.delivery_id == delivery_id)
        .order_by(events.c.position)
    )
    return [dict(row) for row in rows.mappings()]
