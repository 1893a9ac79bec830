"""What playing a delivery again reads and writes, as SQL over a connection inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.store.deliveries import EventRow
from loops.store.once import insert_once
from loops.store.tables import deliveries, events, runs

MOST_REPLAY_VERDICTS = 50


def next_number(connection: sa.Connection, project_id: str, source: str, event_uuid: str, workflow_id: str) -> int:
    """The number of the next replay. The caller holds the workflow's row, so nobody else is given it."""
    last = connection.execute(
        sa.select(sa.func.max(runs.c.replay)).where(
            runs.c.workflow_id == workflow_id,
            runs.c.event_uuid == event_uuid,
            runs.c.project_id == project_id,
            runs.c.source == source,
        )
    ).scalar()
    return (last or 0) + 1


def has_run(connection: sa.Connection, project_id: str, source: str, event_uuid: str, workflow_id: str) -> bool:
    """Whether the event has started a run of the workflow, at first or by a replay."""
    found = connection.execute(
        sa.select(runs.c.id)
        .where(runs.c.workflow_id == workflow_id, runs.c.event_uuid == event_uuid)
        .where(runs.c.project_id == project_id, runs.c.source == source)
        .limit(1)
    )
    return found.first() is not None


def stored_events(connection: sa.Connection, delivery_id: str) -> dict[str, tuple[bytes | None, Sequence[Any]]]:
    """Body and verdicts of the events that are stored of a delivery, by uuid."""
    rows = connection.execute(
        sa.select(events.c.uuid, events.c.body, events.c.verdicts).where(events.c.delivery_id == delivery_id)
    )
    return {row[0]: (row[1], row[2] or []) for row in rows}


def add_verdict(connection: sa.Connection, row: EventRow, now: datetime) -> None:
    """Add the row's verdicts to those that its event has; an event that has a body keeps it."""
    values: dict[str, Any] = {
        "project_id": row.project_id,
        "source": row.source,
        "uuid": row.uuid,
        "delivery_id": row.delivery_id,
        "position": row.position,
        "name": row.name,
        "created_at": now,
        "verdicts": [],
        "body": row.body,
    }
    connection.execute(insert_once(connection, events), values)
    here = (events.c.project_id == row.project_id, events.c.source == row.source, events.c.uuid == row.uuid)
    before = connection.execute(sa.select(events.c.verdicts).where(*here).with_for_update()).scalar() or []
    first = [one for one in before if not one.get("replay")]
    again = [*(one for one in before if one.get("replay")), *row.verdicts]
    connection.execute(
        events.update()
        .where(*here)
        .values(verdicts=[*first, *again[-MOST_REPLAY_VERDICTS:]], body=sa.func.coalesce(events.c.body, row.body))
    )


def count_run(connection: sa.Connection, delivery_id: str) -> None:
    """One more run that the delivery started."""
    connection.execute(deliveries.update().where(deliveries.c.id == delivery_id).values(runs=deliveries.c.runs + 1))


def between(
    connection: sa.Connection,
    project_id: str,
    sources: Sequence[str],
    period: tuple[datetime, datetime],
    *,
    after: str,
    limit: int,
    connection_id: int | None = None,
) -> list[str]:
    """The ids of deliveries that were dealt with and have their body, received in [since, until), oldest first."""
    since, until = period
    query = (
        sa.select(deliveries.c.id)
        .where(deliveries.c.project_id == project_id, deliveries.c.source.in_(sources), deliveries.c.id > after)
        .where(deliveries.c.received_at >= since, deliveries.c.received_at < until)
        .where(deliveries.c.status != "accepted", deliveries.c.body.is_not(None))
    )
    if connection_id is not None:
        query = query.where(deliveries.c.connection_id == connection_id)
    return list(connection.execute(query.order_by(deliveries.c.id).limit(limit)).scalars())


def verdict_of(stored: Sequence[Mapping[str, Any]], workflow_id: str) -> str:
    """The stage of the verdict that was stored of a workflow, empty where there is none."""
    return next((str(one["stage"]) for one in stored if one["workflow"] == workflow_id), "")
