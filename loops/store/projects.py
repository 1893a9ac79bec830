"""Projects, as SQL over a connection inside the caller's transaction."""

import sqlalchemy as sa

from loops.store.tables import projects


def exists(connection: sa.Connection, project_id: str) -> bool:
    """Whether there is a project with this id."""
    return connection.execute(sa.select(projects.c.id).where(projects.c.id == project_id)).first() is not None


def time_zone(connection: sa.Connection, project_id: str) -> str:
    """The IANA name of the project's time zone; UTC where there is no such project."""
    return connection.scalar(sa.select(projects.c.time_zone).where(projects.c.id == project_id)) or "UTC"
