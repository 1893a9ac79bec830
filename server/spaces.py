"""The spaces of a project, as the API and the pages show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.errors import NotFound
from loops.spaces import space_id, space_name
from loops.store import run_queries
from loops.store import workflows as store
from loops.store.workflows import WorkflowRow

MOST_LOOPS = 200


@dataclass(frozen=True, slots=True)
class Space:
    """A space, called as the loop that was changed last calls it, and the loops that list their runs there."""

    id: str
    name: str
    loops: Sequence[WorkflowRow]


@dataclass(frozen=True, slots=True)
class SpaceName:
    """A space as a loop names it."""

    id: str
    name: str


def named_space(given: str | None) -> SpaceName | None:
    """What `<id>|<name>` names; None where nothing is given."""
    return SpaceName(space_id(given), space_name(given)) if given else None


def space_of_run(row: Mapping[str, Any]) -> SpaceName | None:
    """The space that a run is listed in: that of its task, else that of its workflow."""
    of_workflow = named_space(row["workflow_space"])
    if row["space"] is None or (of_workflow is not None and of_workflow.id == row["space"]):
        return of_workflow
    return SpaceName(row["space"], row["space"])


def known(connection: sa.Connection, project_id: str, space: str) -> Sequence[WorkflowRow]:
    """The loops that list their runs in a space. Raises NotFound where neither a loop nor a run does."""
    loops = store.page(connection, project_id, limit=MOST_LOOPS, space=space)
    if not loops and not run_queries.page(connection, project_id, limit=1, space=space):
        raise NotFound(f"there is no space {space!r}", hint="loops spaces lists them; a task names its in channel")
    return loops


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
