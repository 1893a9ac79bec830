"""What a forecast reads, as SQL over a connection: deliveries of a period in parts, and what is comparable."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from loops.store.deliveries import Due
from loops.store.spending_tables import spendings
from loops.store.spendings import NANOS
from loops.store.tables import deliveries, events, revisions, runs
from loops.store.task_tables import tasks

STRETCH = 20_000
_DUE = [deliveries.c[name] for name in Due.__dataclass_fields__]


@dataclass(frozen=True, slots=True)
class Came:
    """A delivery with its headers (JSON) and compressed body, and the facts of its events by uuid."""

    due: Due
    headers: str
    body: bytes
    facts: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ids and sizes of deliveries in their order, and the id after which the next stretch begins; None at the end."""

    sizes: Sequence[tuple[str, int]]
    last: str | None


def stretch(
    connection: sa.Connection,
    project_id: str,
    sources: Sequence[str],
    period: tuple[datetime, datetime],
    after: str,
    connection_id: int | None = None,
) -> Stretch:
    """What of a period has its body among the next deliveries of the table after an id.

    The stretch ends at a row, not at a number of hits: a database that sorts all that is left in place of going along
    the ids, as Postgres does where it expects few hits, then sorts no more than this.
    """
    ahead = sa.select(deliveries.c.id).where(deliveries.c.id > after).order_by(deliveries.c.id)
    last: str | None = connection.execute(ahead.offset(STRETCH - 1).limit(1)).scalar()
    query = (
        sa.select(deliveries.c.id, deliveries.c.size)
        .where(deliveries.c.project_id == project_id, deliveries.c.source.in_(sources), deliveries.c.id > after)
        .where(deliveries.c.received_at >= period[0], deliveries.c.received_at < period[1])
        .where(deliveries.c.body.is_not(None))
    )
    if last is not None:
        query = query.where(deliveries.c.id <= last)
    if connection_id is not None:
        query = query.where(deliveries.c.connection_id == connection_id)
    return Stretch([(row[0], row[1]) for row in connection.execute(query.order_by(deliveries.c.id)).all()], last)


def load(connection: sa.Connection, ids: Sequence[str]) -> list[Came]:
    """These deliveries, in their order. Nothing is decoded here."""
    facts: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    known = sa.select(events.c.delivery_id, events.c.uuid, events.c.facts).where(
        _among(connection, events.c.delivery_id, ids), events.c.facts.is_not(None)
    )
    for delivery_id, uuid, found in connection.execute(known).all():
        facts[delivery_id][uuid] = found
    query = sa.select(*_DUE, deliveries.c.headers, deliveries.c.body).where(_among(connection, deliveries.c.id, ids))
    rows = connection.execute(query.order_by(deliveries.c.id)).all()
    return [
        Came(Due(*row[:-2]), row[-2] or "{}", row[-1], facts.get(row[0], {})) for row in rows if row[-1] is not None
    ]


def _among(connection: sa.Connection, column: sa.Column[str], ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """Postgres takes the ids as one value: with a place for each, its driver reads the statement anew every time."""
    if connection.dialect.name != "postgresql":
        return column.in_(ids)
    return column == sa.any_(sa.bindparam(None, list(ids), type_=postgresql.ARRAY(sa.String)))


def tasks_of_others(
    connection: sa.Connection, project_id: str, workflow_id: str, since: datetime, limit: int
) -> list[datetime]:
    """When tasks of other workflows of the project were created after then, the earliest first."""
    query = sa.select(tasks.c.created_at).where(tasks.c.project_id == project_id, tasks.c.created_at > since)
    found = connection.execute(
        query.where(tasks.c.workflow_id != workflow_id).order_by(tasks.c.created_at).limit(limit)
    )
    return list(found.scalars())


def spent_by_others(
    connection: sa.Connection, project_id: str, workflow_id: str, since: datetime, limit: int
) -> list[tuple[datetime, int, Decimal]]:
    """When other workflows of the project spent how many tokens and US dollars after then, the earliest first."""
    query = sa.select(spendings.c.created_at, spendings.c.tokens, spendings.c.nanos).where(
        spendings.c.project_id == project_id, spendings.c.workflow_id != workflow_id, spendings.c.created_at > since
    )
    rows = connection.execute(query.order_by(spendings.c.created_at).limit(limit))
    return [(row[0], row[1], Decimal(row[2] or 0) / NANOS) for row in rows]


def runs_of_others(
    connection: sa.Connection, project_id: str, workflow_id: str, since: datetime, limit: int
) -> dict[str, list[tuple[datetime, str]]]:
    """When events started runs of other workflows after then, and which, by their subject, the earliest first."""
    query = (
        sa.select(runs.c.subject, runs.c.created_at, runs.c.event_uuid)
        .where(runs.c.project_id == project_id, runs.c.workflow_id != workflow_id, runs.c.created_at > since)
        .where(runs.c.subject.is_not(None))
    )
    found: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for subject, at, uuid in connection.execute(query.order_by(runs.c.created_at).limit(limit)):
        found[subject].append((at, uuid))
    return found


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task that ended: what it cost in USD (None: unknown), its tokens, how long it took in seconds, and the revision
    that its step stands in."""

    workflow_id: str
    step_id: str
    model: str
    cost: float | None
    tokens: int
    seconds: float
    version: int


def done(connection: sa.Connection, project_id: str, limit: int) -> list[TaskDone]:
    """The last tasks of a project that ended and did some work: one that failed before its first round says nothing."""
    query = (
        sa.select(
            tasks.c.workflow_id, tasks.c.step_id, tasks.c.model, tasks.c.cost, tasks.c.started_at, tasks.c.finished_at,
            runs.c.version, tasks.c.input_tokens + tasks.c.output_tokens,
        )
        .join(runs, runs.c.id == tasks.c.run_id)
        .where(tasks.c.project_id == project_id, tasks.c.finished_at.is_not(None), tasks.c.started_at.is_not(None))
        .where(sa.or_(tasks.c.rounds > 0, tasks.c.status == "completed"))
        .order_by(tasks.c.created_at.desc())
        .limit(limit)
    )  # fmt: skip
    return [
        TaskDone(row[0], row[1], row[2], row[3], row[7], (row[5] - row[4]).total_seconds(), row[6])
        for row in connection.execute(query)
    ]


def definitions(
    connection: sa.Connection, wanted: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], Mapping[str, Any]]:
    """These revisions, by workflow and version."""
    if not wanted:
        return {}
    key = sa.tuple_(revisions.c.workflow_id, revisions.c.version)
    query = sa.select(revisions.c.workflow_id, revisions.c.version, revisions.c.definition).where(key.in_(wanted))
    return {(row[0], row[1]): row[2] for row in connection.execute(query)}
