"""Projects, as SQL over a connection inside the caller's transaction."""

from collections.abc import Sequence

import sqlalchemy as sa

from loops.event import JsonValue
from loops.store import workflows as workflows_store
from loops.store.tables import projects, workflows


def exists(connection: sa.Connection, project_id: str) -> bool:
    """Whether there is a project with this id."""
    return connection.execute(sa.select(projects.c.id).where(projects.c.id == project_id)).first() is not None


def test_account_filters(connection: sa.Connection, project_id: str) -> Sequence[JsonValue]:
    """The property filters that tell the project's test accounts from others; none where none are set."""
    query = sa.select(projects.c.test_account_filters).where(projects.c.id == project_id)
    return connection.execute(query).scalar() or []


def set_test_account_filters(connection: sa.Connection, project_id: str, filters: Sequence[JsonValue]) -> None:
    """Set them. Every process compiles the project's workflows anew before it matches the next event."""
    connection.execute(projects.update().where(projects.c.id == project_id).values(test_account_filters=[*filters]))
    epoch = workflows_store.bump_epoch(connection)
    connection.execute(
        workflows.update()
        .where(workflows.c.project_id == project_id, workflows.c.status == "active")
        .values(changed_epoch=epoch)
    )
