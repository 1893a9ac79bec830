"""Workflows and their revisions, as SQL over a connection inside the caller's transaction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound
from loops.store.database import DEFINITIONS
from loops.store.tables import epochs, revisions, workflows


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A stored workflow: its current definition and its life."""

    id: str
    project_id: str
    name: str
    description: str
    status: str
    origin_product: str | None
    version: int
    definition: Mapping[str, Any]
    changed_epoch: int
    since_epoch: int
    enabled_by: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    space: str | None = None


_AT_ONCE = 200
# Read for every batch of deliveries.
_EPOCH = sa.select(epochs.c.value).where(epochs.c.name == DEFINITIONS)
_COLUMNS = [workflows.c[name] for name in WorkflowRow.__dataclass_fields__]


def definitions_epoch(connection: sa.Connection) -> int:
    """The epoch of the last change of any definition."""
    value: int = connection.execute(_EPOCH).scalar_one()
    return value


def bump_epoch(connection: sa.Connection) -> int:
    """A new epoch. Changes of definitions are serialised by its row, so epochs become visible in their order."""
    value: int = connection.execute(
        epochs.update().where(epochs.c.name == DEFINITIONS).values(value=epochs.c.value + 1).returning(epochs.c.value)
    ).scalar_one()
    return value


def insert(connection: sa.Connection, row: WorkflowRow) -> None:
    """Store a new workflow with its first revision."""
    values = {name: getattr(row, name) for name in WorkflowRow.__dataclass_fields__}
    connection.execute(workflows.insert().values(**values))
    add_revision(connection, row.id, row.version, row.definition, row.created_by, row.created_at)


def add_revision(
    connection: sa.Connection,
    workflow_id: str,
    version: int,
    definition: Mapping[str, Any],
    created_by: str | None,
    now: datetime,
) -> None:
    """Store one version of a definition."""
    connection.execute(
        revisions.insert().values(
            workflow_id=workflow_id, version=version, definition=definition, created_by=created_by, created_at=now
        )
    )


def update(connection: sa.Connection, workflow_id: str, **values: Any) -> None:  # noqa: ANN401
    """Change columns of a workflow."""
    connection.execute(workflows.update().where(workflows.c.id == workflow_id).values(**values))


def get(connection: sa.Connection, project_id: str, workflow_id: str, *, lock: bool = False) -> WorkflowRow:
    """The workflow with this id in this project. Raises NotFound."""
    query = sa.select(*_COLUMNS).where(workflows.c.id == workflow_id, workflows.c.project_id == project_id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFound(f"there is no workflow {workflow_id!r} in project {project_id!r}")
    return WorkflowRow(*row)


def named(connection: sa.Connection, project_id: str, name: str) -> list[WorkflowRow]:
    """The workflows of this name that are not archived."""
    rows = connection.execute(
        sa.select(*_COLUMNS).where(
            workflows.c.project_id == project_id, workflows.c.name == name, workflows.c.status != "archived"
        )
    )
    return [WorkflowRow(*row) for row in rows]


def page(
    connection: sa.Connection,
    project_id: str,
    *,
    limit: int,
    before: tuple[datetime, str] | None = None,
    status: str | None = None,
    origin_product: str | None = None,
    name: str | None = None,
    search: str | None = None,
    space: str | None = None,
) -> list[WorkflowRow]:
    """Workflows of a project, the newest first, below a (created_at, id); archived ones only by that status. `search`
    stands in the name or the description, `space` is the id of one."""
    query = sa.select(*_COLUMNS).where(workflows.c.project_id == project_id)
    query = query.where(workflows.c.status != "archived" if status is None else workflows.c.status == status)
    if name is not None:
        query = query.where(workflows.c.name == name)
    if space is not None:
        query = query.where(in_space(space))
    if search is not None:
        texts = (workflows.c.name, workflows.c.description)
        query = query.where(sa.or_(*(text.icontains(search, autoescape=True) for text in texts)))
    if origin_product is not None:
        query = query.where(workflows.c.origin_product == origin_product)
    if before is not None:
        query = query.where(sa.tuple_(workflows.c.created_at, workflows.c.id) < sa.tuple_(*_literals(before)))
    query = query.order_by(workflows.c.created_at.desc(), workflows.c.id.desc()).limit(limit)
    return [WorkflowRow(*row) for row in connection.execute(query)]


def with_space(connection: sa.Connection, project_id: str) -> list[WorkflowRow]:
    """The workflows of a project that list their runs in a space, without the archived ones, by name."""
    here = (workflows.c.project_id == project_id, workflows.c.space.is_not(None), workflows.c.status != "archived")
    rows = connection.execute(sa.select(*_COLUMNS).where(*here).order_by(workflows.c.name))
    return [WorkflowRow(*row) for row in rows]


def in_space(space: str) -> "sa.ColumnElement[bool]":
    """Whether a workflow lists its runs in the space of this id."""
    return sa.or_(workflows.c.space == space, workflows.c.space.startswith(f"{space}|", autoescape=True))


def active(connection: sa.Connection, project_id: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The name and definition of each workflow of a project that may start runs, by name."""
    here = (workflows.c.project_id == project_id, workflows.c.status == "active")
    rows = connection.execute(
        sa.select(workflows.c.name, workflows.c.definition).where(*here).order_by(workflows.c.name)
    )
    return [(row[0], row[1]) for row in rows]


def kept(connection: sa.Connection, project_id: str) -> list[WorkflowRow]:
    """The workflows of a project without the archived ones, by name."""
    here = (workflows.c.project_id == project_id, workflows.c.status != "archived")
    rows = connection.execute(sa.select(*_COLUMNS).where(*here).order_by(workflows.c.name))
    return [WorkflowRow(*row) for row in rows]


def _literals(before: tuple[datetime, str]) -> tuple[Any, Any]:
    return sa.literal(before[0], workflows.c.created_at.type), sa.literal(before[1])


def changed_since(connection: sa.Connection, epoch: int) -> Iterator[WorkflowRow]:
    """What an index that knows everything up to `epoch` has to load again; few at a time, as it may be everything."""
    query = sa.select(*_COLUMNS).where(workflows.c.changed_epoch > epoch).order_by(workflows.c.changed_epoch)
    for row in connection.execute(query.execution_options(yield_per=_AT_ONCE)):
        yield WorkflowRow(*row)


def revision(connection: sa.Connection, workflow_id: str, version: int) -> Mapping[str, Any] | None:
    """The definition of one version, None when there is none."""
    found: Mapping[str, Any] | None = connection.execute(
        sa.select(revisions.c.definition).where(revisions.c.workflow_id == workflow_id, revisions.c.version == version)
    ).scalar()
    return found
