"""Deleting a connection: never one that something needs, unless whoever deletes it says so."""

import sqlalchemy as sa

from loops.connections.uses import named_connections, needed_kinds
from loops.errors import Conflict
from loops.runs.alert_words import read_target
from loops.store import alerts, connections, workflows
from loops.store.connections import ConnectionRow

_MOST_LISTED = 10


def remove(connection: sa.Connection, project_id: str, connection_id: int, *, force: bool) -> None:
    """Delete a connection of a project. Raises NotFound; without `force` Conflict with the names of what needs it."""
    known = connections.get(connection, connection_id)
    # All of its kind, in one order: which one is the last stays so until this one is gone.
    alike = [] if known is None else connections.held_of_kind(connection, project_id, known.kind)
    row = connections.held(connection, project_id, connection_id)
    needed_by = [] if force else _needed_by(connection, row, is_last=len(alike) == 1)
    if needed_by:
        more = f" and {len(needed_by) - _MOST_LISTED} more" if len(needed_by) > _MOST_LISTED else ""
        raise Conflict(
            f"{row.kind} connection {row.id} ({row.name}) is needed by {', '.join(needed_by[:_MOST_LISTED])}{more}",
            hint="give them another connection first; force=true deletes it all the same",
        )
    connections.delete(connection, project_id, connection_id)


def _needed_by(connection: sa.Connection, row: ConnectionRow, *, is_last: bool) -> list[str]:
    """The workflows that would miss it, archived ones left out, and failures that are told over it.

    A workflow that hears over any connection of a kind, or works on a repository, needs the last one of that kind.
    """
    names = [
        repr(one.name)
        for one in workflows.kept(connection, row.project_id)
        if row.id in named_connections(one.definition)
        or one.id == row.config.get("workflow")
        or (is_last and row.kind in needed_kinds(one.definition))
    ]
    target = read_target(alerts.target(connection, row.project_id))
    return names + (["the alerts of failures"] if target is not None and target.connection == row.id else [])
