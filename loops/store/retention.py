"""Retention (D47): what is old goes, in small batches so that no writer waits.

Bodies of deliveries, events with their verdicts and the steps of runs after `keep_days`; the keys of deliveries,
claims and the rows of runs after 90 days. Nothing goes that an open run still needs.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa

from loops.store.runs import OPEN
from loops.store.tables import claims, deliveries, events, run_steps, runs

KEY_DAYS = 90
BATCH = 500


def sweep(connection: sa.Connection, now: datetime, keep_days: int) -> int:
    """One batch of every kind; how many rows went or were emptied. Call again until it is 0."""
    old, older = now - timedelta(days=keep_days), now - timedelta(days=max(KEY_DAYS, keep_days))
    return (
        _empty_deliveries(connection, old)
        + _delete_events(connection, old)
        + _delete_steps(connection, old)
        + _delete_runs(connection, older)
        + _delete_keys(connection, older)
        + _delete_claims(connection, older)
    )


def _empty_deliveries(connection: sa.Connection, old: datetime) -> int:
    ids = sa.select(deliveries.c.id).where(
        deliveries.c.received_at < old, deliveries.c.body.is_not(None), deliveries.c.status != "accepted"
    )
    return connection.execute(
        deliveries.update()
        .where(deliveries.c.id.in_(ids.limit(BATCH).scalar_subquery()))
        .values(body=None, headers=None)
    ).rowcount


def _delete_events(connection: sa.Connection, old: datetime) -> int:
    needed = (
        sa.select(runs.c.id)
        .where(runs.c.event_uuid == events.c.uuid, runs.c.source == events.c.source)
        .where(runs.c.project_id == events.c.project_id, runs.c.status.in_(OPEN))
        .exists()
    )
    uuids = sa.select(events.c.uuid).where(events.c.created_at < old, ~needed).limit(BATCH)
    return connection.execute(
        events.delete().where(events.c.uuid.in_(uuids.scalar_subquery()), events.c.created_at < old)
    ).rowcount


def _delete_steps(connection: sa.Connection, old: datetime) -> int:
    over = (
        sa.select(run_steps.c.run_id)
        .join(runs, runs.c.id == run_steps.c.run_id)
        .where(runs.c.finished_at < old, ~runs.c.status.in_(OPEN))
        .distinct()
        .limit(BATCH)
    )
    return connection.execute(run_steps.delete().where(run_steps.c.run_id.in_(over.scalar_subquery()))).rowcount


def _delete_runs(connection: sa.Connection, older: datetime) -> int:
    ids = sa.select(runs.c.id).where(runs.c.finished_at < older, ~runs.c.status.in_(OPEN)).limit(BATCH)
    return connection.execute(runs.delete().where(runs.c.id.in_(ids.scalar_subquery()))).rowcount


def _delete_keys(connection: sa.Connection, older: datetime) -> int:
    ids = sa.select(deliveries.c.id).where(deliveries.c.received_at < older, deliveries.c.status != "accepted")
    return connection.execute(
        deliveries.delete().where(deliveries.c.id.in_(ids.limit(BATCH).scalar_subquery()))
    ).rowcount


def _delete_claims(connection: sa.Connection, older: datetime) -> int:
    keys = sa.select(claims.c.workflow_id, claims.c.claim).where(claims.c.created_at < older).limit(BATCH).subquery()
    return connection.execute(
        claims.delete().where(
            sa.exists().where(keys.c.workflow_id == claims.c.workflow_id, keys.c.claim == claims.c.claim)
        )
    ).rowcount
