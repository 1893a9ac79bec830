"""The spaces of a project, as the API and the pages show them."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from loops.spaces import space_id, space_name
from loops.store import workflows as store
from loops.store.workflows import WorkflowRow


@dataclass(frozen=True, slots=True)
class Space:
    """A space, called as the loop that was changed last calls it, and the loops that list their runs there."""

    id: str
    name: str
    loops: Sequence[WorkflowRow]


def spaces_of(connection: sa.Connection, project_id: str) -> list[Space]:
    """Every space that a loop names which is not archived, by name."""
    grouped: dict[str, list[WorkflowRow]] = {}
    for row in store.with_space(connection, project_id):
        grouped.setdefault(space_id(row.space or ""), []).append(row)
    found = [
        Space(one, space_name(max(rows, key=lambda row: row.updated_at).space or ""), rows)
        for one, rows in grouped.items()
    ]
    return sorted(found, key=lambda space: (space.name.lower(), space.id))
