"""What is known of each workflow's failures, as SQL over a connection inside the caller's transaction."""

import dataclasses
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.event import JsonValue
from loops.runs.alerts import Failures
from loops.store.columns import core, instant_field
from loops.store.once import insert_once
from loops.store.tables import projects, workflows

MOST_AT_ONCE = 50


class AlertRow(SQLModel, table=True):
    """See Failures."""

    __tablename__ = "loops_alerts"
    __table_args__ = (
        sa.Index(
            "loops_alerts_due",
            "due_at",
            sqlite_where=sa.text("due_at IS NOT NULL"),
            postgresql_where=sa.text("due_at IS NOT NULL"),
        ),
    )
    workflow_id: str = Field(primary_key=True)
    project_id: str = Field(index=True)
    is_failing: bool
    is_told: bool
    failures: int
    untold: int
    run_id: str
    reason: str
    failed_at: datetime | None = instant_field(nullable=True)
    told_at: datetime | None = instant_field(nullable=True)
    due_at: datetime | None = instant_field(nullable=True)


alerts = core(AlertRow)
_COLUMNS = [alerts.c[field.name] for field in dataclasses.fields(Failures)]


@dataclass(frozen=True, slots=True)
class FailingWorkflow:
    """A workflow whose last run failed."""

    workflow_id: str
    name: str
    known: Failures


def known(connection: sa.Connection, workflow_id: str) -> Failures | None:
    """What is known of a workflow's failures; None where none of its runs has failed yet."""
    row = connection.execute(sa.select(*_COLUMNS).where(alerts.c.workflow_id == workflow_id)).first()
    return None if row is None else Failures(*row)


def held(connection: sa.Connection, project_id: str, workflow_id: str) -> Failures:
    """The same, held until the transaction ends: of runs that end together one alone is the first."""
    empty = {"workflow_id": workflow_id, "project_id": project_id, **dataclasses.asdict(Failures())}
    connection.execute(insert_once(connection, alerts), empty)
    query = sa.select(*_COLUMNS).where(alerts.c.workflow_id == workflow_id).with_for_update()
    return Failures(*connection.execute(query).one())


def put(connection: sa.Connection, workflow_id: str, changed: Failures) -> None:
    """Store what is known; the caller holds it."""
    values = dataclasses.asdict(changed)
    connection.execute(alerts.update().where(alerts.c.workflow_id == workflow_id).values(**values))


def put_off(connection: sa.Connection, workflow_id: str) -> None:
    """What waits to be told waits for the next failure."""
    connection.execute(alerts.update().where(alerts.c.workflow_id == workflow_id).values(due_at=None))


def due(connection: sa.Connection, now: datetime) -> list[tuple[str, str]]:
    """The project and id of each workflow with failures that are to be told now; held, and passed over where another
    process holds them."""
    query = sa.select(alerts.c.project_id, alerts.c.workflow_id).where(alerts.c.due_at <= now)
    query = query.order_by(alerts.c.due_at).limit(MOST_AT_ONCE).with_for_update(skip_locked=True)
    return [(row[0], row[1]) for row in connection.execute(query)]


def any_due(connection: sa.Connection, now: datetime) -> bool:
    """Whether there are any."""
    return (
        connection.execute(sa.select(alerts.c.workflow_id).where(alerts.c.due_at <= now).limit(1)).first() is not None
    )


def failing(connection: sa.Connection, project_id: str) -> list[FailingWorkflow]:
    """The workflows of a project whose last run failed, the latest failure first."""
    query = (
        sa.select(alerts.c.workflow_id, workflows.c.name, *_COLUMNS)
        .join(workflows, workflows.c.id == alerts.c.workflow_id)
        .where(alerts.c.project_id == project_id, alerts.c.is_failing.is_(True))
        .order_by(alerts.c.failed_at.desc())
    )
    return [FailingWorkflow(row[0], row[1], Failures(*row[2:])) for row in connection.execute(query)]


def target(connection: sa.Connection, project_id: str) -> JsonValue:
    """Where the project wants to hear of failures; None where each loop tells them where it tells its result."""
    stored: JsonValue = connection.execute(
        sa.select(projects.c.alert_target).where(projects.c.id == project_id)
    ).scalar()
    return stored


def set_target(connection: sa.Connection, project_id: str, stored: JsonValue) -> None:
    """Set it."""
    connection.execute(projects.update().where(projects.c.id == project_id).values(alert_target=stored))
