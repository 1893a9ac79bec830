"""Projects, as SQL over a connection inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from loops.event import JsonValue
from loops.store import workflows as workflows_store
from loops.store.tables import projects, workflows


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What a project says for all of its workflows.

    `time_zone` is an IANA name; `test_account_filters` the property filters that tell its test accounts from others.
    """

    time_zone: str = "UTC"
    test_account_filters: Sequence[JsonValue] = ()


SETTINGS = (projects.c.time_zone, projects.c.test_account_filters)
"""The columns that `read_settings` reads."""


def exists(connection: sa.Connection, project_id: str) -> bool:
    """Whether there is a project with this id."""
    return connection.execute(sa.select(projects.c.id).where(projects.c.id == project_id)).first() is not None


def settings(connection: sa.Connection, project_id: str) -> ProjectSettings:
    """The project's settings; those that a project begins with where there is none."""
    row = connection.execute(sa.select(*SETTINGS).where(projects.c.id == project_id)).first()
    return ProjectSettings() if row is None else read_settings(*row)


def read_settings(time_zone: str | None, test_account_filters: Sequence[JsonValue] | None) -> ProjectSettings:
    """Settings out of their columns, null where a join found no project."""
    return ProjectSettings(time_zone or "UTC", test_account_filters or ())


def quotas(connection: sa.Connection, project_id: str) -> Mapping[str, JsonValue]:
    """The quotas that a project has in place of the installation's, as they were set; see loops/tasks/quota.py."""
    return connection.execute(sa.select(projects.c.quotas).where(projects.c.id == project_id)).scalar() or {}


def set_quotas(connection: sa.Connection, project_id: str, given: Mapping[str, JsonValue]) -> None:
    """Set them. Whoever creates a task or asks a model next is held to them."""
    connection.execute(projects.update().where(projects.c.id == project_id).values(quotas=dict(given)))


def set_test_account_filters(connection: sa.Connection, project_id: str, filters: Sequence[JsonValue]) -> None:
    """Set them. Every process compiles the project's workflows anew before it matches the next event."""
    connection.execute(projects.update().where(projects.c.id == project_id).values(test_account_filters=[*filters]))
    epoch = workflows_store.bump_epoch(connection)
    connection.execute(
        workflows.update()
        .where(workflows.c.project_id == project_id, workflows.c.status == "active")
        .values(changed_epoch=epoch)
    )
