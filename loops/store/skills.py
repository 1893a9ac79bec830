"""Skills of a project, as SQL over a connection inside the caller's transaction."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from loops.errors import Conflict, NotFound
from loops.store.ids import new_id
from loops.store.skill_tables import skills


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A stored skill."""

    id: str
    project_id: str
    name: str
    description: str
    body: str
    files: Mapping[str, str]
    created_by: str | None
    created_at: datetime
    updated_at: datetime


_COLUMNS = [skills.c[name] for name in SkillRow.__dataclass_fields__]


def insert(
    connection: sa.Connection,
    *,
    project_id: str,
    name: str,
    description: str,
    body: str,
    files: Mapping[str, str],
    by: str | None,
    now: datetime,
) -> SkillRow:
    """Store a new skill. Raises Conflict where the project has one of this name."""
    row = SkillRow(new_id(), project_id, name, description, body, dict(files), by, now, now)
    taken = Conflict(
        f"project {project_id!r} has a skill {name!r} already", hint="change that one, or give another name"
    )
    if named(connection, project_id, [name]):
        raise taken
    try:
        connection.execute(skills.insert().values(**{key: getattr(row, key) for key in SkillRow.__dataclass_fields__}))
    except IntegrityError as error:
        raise taken from error
    return row


def change(
    connection: sa.Connection, row: SkillRow, description: str, body: str, files: Mapping[str, str], now: datetime
) -> SkillRow:
    """Give a skill another content; the skill as it is then."""
    changed = replace(row, description=description, body=body, files=dict(files), updated_at=now)
    values = {name: getattr(changed, name) for name in ("description", "body", "files", "updated_at")}
    connection.execute(skills.update().where(skills.c.id == row.id).values(**values))
    return changed


def delete(connection: sa.Connection, project_id: str, name: str) -> None:
    """Delete a skill. Raises NotFound."""
    gone = connection.execute(skills.delete().where(skills.c.project_id == project_id, skills.c.name == name))
    if not gone.rowcount:
        raise NotFound(f"there is no skill {name!r} in project {project_id!r}", hint="see: loops skills list")


def get(connection: sa.Connection, project_id: str, name: str) -> SkillRow:
    """One skill. Raises NotFound."""
    found = named(connection, project_id, [name])
    if not found:
        raise NotFound(f"there is no skill {name!r} in project {project_id!r}", hint="see: loops skills list")
    return found[0]


def named(connection: sa.Connection, project_id: str, names: Collection[str]) -> list[SkillRow]:
    """Those of these names that the project has."""
    query = sa.select(*_COLUMNS).where(skills.c.project_id == project_id, skills.c.name.in_(names))
    return [SkillRow(*row) for row in connection.execute(query.order_by(skills.c.name))]


def names(connection: sa.Connection, project_id: str) -> list[str]:
    """The names of all skills of a project, in their order."""
    query = sa.select(skills.c.name).where(skills.c.project_id == project_id)
    return list(connection.execute(query.order_by(skills.c.name)).scalars())


def page(
    connection: sa.Connection, project_id: str, *, limit: int, after: str | None = None, search: str | None = None
) -> list[SkillRow]:
    """Skills of a project by name, those behind the name `after`; `search` stands in name or description."""
    query = sa.select(*_COLUMNS).where(skills.c.project_id == project_id)
    if after is not None:
        query = query.where(skills.c.name > after)
    if search is not None:
        query = query.where(
            sa.or_(*(c.icontains(search, autoescape=True) for c in (skills.c.name, skills.c.description)))
        )
    return [SkillRow(*row) for row in connection.execute(query.order_by(skills.c.name).limit(limit))]
