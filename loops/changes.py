"""A change of a workflow as values: what it was made on, what it came to, and how a workflow is shown."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from loops.definition.findings import MOST_KEPT, few_suggestions, suggestion
from loops.definition.form import shape_of
from loops.errors import Conflict, DefinitionError, Fault
from loops.event import JsonValue
from loops.store.workflows import WorkflowRow

Change = Literal["created", "updated", "unchanged"]
Running = Literal["drain", "cancel"]
"""What becomes of the runs under way when a workflow is disabled: they go on to their end, or are cancelled."""

SETTABLE = (
    "name",
    "description",
    "exit_condition",
    "conversion",
    "trigger_masking",
    "trigger_rate_limit",
    "trigger_debounce",
    "trigger_overlap",
    "variables",
    "email_sending_rate_limit",
)
"""The keys of a definition that can be set one by one."""
_ELSEWHERE: Mapping[str, str] = {
    "actions": "change the graph with operations (PATCH …/graph)",
    "edges": "change the graph with operations (PATCH …/graph)",
    "status": "enable, disable or archive the workflow",
}


@dataclass(frozen=True, slots=True)
class Base:
    """What a change was made on: the version that was read, or when it was last changed. What is None is not asked."""

    version: int | None = None
    updated_at: datetime | None = None

    def check(self, row: WorkflowRow) -> None:
        """Raises Conflict, naming both, where the workflow is another by now."""
        same_version = self.version in (None, row.version)
        if same_version and self.updated_at in (None, row.updated_at):
            return
        meant = f"version {self.version}" if self.version is not None else "the workflow"
        since = f" of {self.updated_at.isoformat()}" if self.updated_at is not None else ""
        raise Conflict(
            f"workflow {row.name!r} is at version {row.version}, last changed {row.updated_at.isoformat()}; "
            f"the change was made on {meant}{since}",
            hint="read it again and make the change on the current version",
            path="base_updated_at" if same_version else "base_version",
        )


ANY_BASE = Base()


@dataclass(frozen=True, slots=True)
class Saved:
    """A stored workflow, what became of its definition, and what the checks noticed without refusing it.

    `enabled` when it was not enabled before and was asked to be.
    """

    row: WorkflowRow
    change: Change
    warnings: tuple[Fault, ...] = ()
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class Retired:
    """A workflow that starts no more runs, and what became of those that were under way: how many go on, how many were
    cancelled, and the ids of those that were asked to stop and still act."""

    row: WorkflowRow
    draining: int = 0
    cancelled: int = 0
    stopping: tuple[str, ...] = ()


def with_changes(definition: Mapping[str, JsonValue], changes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The definition with these keys set. Raises DefinitionError for keys that are not set one by one."""
    faults = []
    with few_suggestions():
        for key, value in changes.items():
            if key in SETTABLE or (key == "origin_product" and value == definition.get(key)):
                continue
            if key == "origin_product":
                faults += origin_fault(definition.get(key))
            else:
                hint = _ELSEWHERE.get(key) or suggestion(key, SETTABLE)
                faults.append(Fault(key[:60], "cannot be set by itself", hint))
    if faults:
        raise DefinitionError(faults[:MOST_KEPT])
    return {**definition, **changes}


def origin_fault(given: object) -> list[Fault]:
    """What is said where origin_product would change, which was `given` at creation."""
    message = f"was set to {given!r} when the workflow was created and stays so"
    return [Fault("origin_product", message, "leave it as it is, or create another workflow")]


def refuse_archived(row: WorkflowRow) -> None:
    """Raises Conflict."""
    if row.status == "archived":
        raise Conflict(f"workflow {row.name!r} is archived", hint="create it anew to use it again")


def without_status(document: Mapping[str, Any]) -> str:
    """What makes a definition, as text, since to Python `true` equals 1. Whether the workflow is enabled is told in it
    and kept apart."""
    return json.dumps({key: value for key, value in document.items() if key != "status"}, sort_keys=True)


def column_changes(before: WorkflowRow, after: WorkflowRow) -> dict[str, Any]:
    """The columns in which two rows differ, as the second has them."""
    return {
        field.name: getattr(after, field.name)
        for field in dataclasses.fields(WorkflowRow)
        if getattr(after, field.name) != getattr(before, field.name)
    }


def shown(row: WorkflowRow) -> Mapping[str, Any]:
    """A workflow as the API and the command line show it: its definition with the server's keys. `shape` tells whether
    it is a loop in its canonical shape, a loop that was `changed` (by what stands there), or another workflow."""
    shape, reasons = shape_of(row.definition)
    return {
        **row.definition,
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "version": row.version,
        "shape": shape,
        "changed": [{"path": one.path, "message": one.message} for one in reasons],
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }
