"""Reading what an explanation needs: the loops of a project, and the definitions that they had at some time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from loops.store import workflows as store
from loops.store.tables import revisions, runs, workflows
from loops.store.thread_tables import thread_messages, threads
from loops.store.workflows import WorkflowRow


def active(connection: sa.Connection, project_id: str, limit: int) -> list[WorkflowRow]:
    """Enabled workflows of a project, the newest first, at most `limit`."""
    return store.page(connection, project_id, limit=limit, status="active")


def as_of(connection: sa.Connection, rows: Sequence[WorkflowRow], instant: datetime) -> list[WorkflowRow]:
    """The same workflows, each with the definition that was its current one at that instant.

    One that is younger than the instant keeps its present definition.
    """
    versions = connection.execute(
        sa.select(revisions.c.workflow_id, sa.func.max(revisions.c.version))
        .where(revisions.c.workflow_id.in_([row.id for row in rows]), revisions.c.created_at <= instant)
        .group_by(revisions.c.workflow_id)
    )
    then = {row[0]: row[1] for row in versions}
    return [_at_version(connection, row, then.get(row.id, row.version)) for row in rows]


def _at_version(connection: sa.Connection, row: WorkflowRow, version: int) -> WorkflowRow:
    if version == row.version:
        return row
    definition = store.revision(connection, row.id, version)
    return row if definition is None else replace(row, version=version, definition=definition)


def names(connection: sa.Connection, ids: Sequence[str]) -> dict[str, str]:
    """The names of workflows, whatever became of them."""
    rows = connection.execute(sa.select(workflows.c.id, workflows.c.name).where(workflows.c.id.in_(ids)))
    return {row[0]: row[1] for row in rows}


def started(connection: sa.Connection, delivery_id: str) -> dict[tuple[str, str, int], str]:
    """The runs that a delivery started, by workflow, uuid of the event, and number of the replay."""
    rows = connection.execute(
        sa.select(runs.c.workflow_id, runs.c.event_uuid, runs.c.replay, runs.c.id).where(
            runs.c.delivery_id == delivery_id
        )
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def spoken_to(connection: sa.Connection, delivery_id: str, workflow_ids: Sequence[str]) -> dict[str, str]:
    """The runs whose live tasks a delivery was handed to, by their workflows, of which these come into question."""
    if not workflow_ids:
        return {}
    rows = connection.execute(
        sa.select(threads.c.workflow_id, threads.c.run_id)
        .join(thread_messages, thread_messages.c.task_id == threads.c.task_id)
        .where(threads.c.workflow_id.in_(workflow_ids), thread_messages.c.delivery_id == delivery_id)
    )
    return {row[0]: row[1] for row in rows}
