"""The life of workflows: create, change, enable, disable, archive, apply. One set of checks for every surface."""

import dataclasses
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import sqlalchemy as sa

from loops.connections.named import connection_warnings
from loops.definition import Workflow, parse_workflow
from loops.definition.lint import linted
from loops.definition.lint_subject import NOTHING_KNOWN, Outside
from loops.errors import Conflict, DefinitionError, Fault
from loops.event import JsonValue
from loops.ports import Clock, Reader, Writer
from loops.projects import project_filters
from loops.store import workflows as store
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop

T = TypeVar("T")

Change = Literal["created", "updated", "unchanged"]

_ENABLE_TRIES = 2


@dataclass(frozen=True, slots=True)
class Saved:
    """A stored workflow, what became of its definition, and what the checks noticed without refusing it.

    `enabled` when it was not enabled before and was asked to be.
    """

    row: WorkflowRow
    change: Change
    warnings: tuple[Fault, ...] = ()
    enabled: bool = False


class Workflows:
    """Raises DefinitionError with every fault, NotFound, or Conflict."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        saved: Callable[[sa.Connection, WorkflowRow], None] = lambda _connection, _row: None,
        outside: Callable[[str, Workflow], Awaitable[Outside]] | None = None,
    ) -> None:
        """`saved` is called with each stored change, inside of its transaction; `changed` after it. `outside` looks at
        what lint cannot see of a project's workflow."""
        self._outside = outside
        self._changed = changed
        self._saved = saved
        self._writer = writer
        self._reader = reader
        self._clock = clock

    async def _write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Change definitions, and tell this process that they did."""
        result = await self._writer.run(fn)
        self._changed()
        return result

    async def create(self, project_id: str, document: JsonValue, by: str) -> Saved:
        """Store a new workflow. `status: active` in the document enables it."""
        workflow = await self.parse(project_id, document)
        return await self._write(lambda connection: self._create(connection, project_id, workflow, by))

    def _create(self, connection: sa.Connection, project_id: str, workflow: Workflow, by: str) -> Saved:
        now = self._clock.now()
        active = workflow.status == "active"
        epoch = store.bump_epoch(connection)
        row = WorkflowRow(
            id=str(uuid.uuid4()),
            project_id=project_id,
            name=workflow.name or "",
            description=workflow.description,
            status=workflow.status,
            origin_product=workflow.origin_product,
            version=1,
            definition=workflow.document,
            changed_epoch=epoch,
            since_epoch=epoch if active else 0,
            enabled_by=by if active else None,
            created_by=by,
            created_at=now,
            updated_at=now,
        )
        store.insert(connection, row)
        self._saved(connection, row)
        return Saved(row, "created", _warnings(connection, project_id, workflow))

    async def update(
        self, project_id: str, workflow_id: str, document: JsonValue, by: str, *, base_version: int | None = None
    ) -> Saved:
        """Replace the definition, as a new version; runs in flight keep theirs.

        Raises Conflict when `base_version` is not the current one, or when origin_product would change.
        """
        workflow = await self.parse(project_id, document)

        def change(connection: sa.Connection) -> Saved:
            row = store.get(connection, project_id, workflow_id, lock=True)
            if base_version is not None and base_version != row.version:
                raise Conflict(
                    f"workflow {row.name!r} is at version {row.version}, not {base_version}",
                    hint="read it again and make the change on the current version",
                )
            return self._update(connection, row, workflow, by)

        return await self._write(change)

    def _update(self, connection: sa.Connection, row: WorkflowRow, workflow: Workflow, by: str) -> Saved:
        if workflow.origin_product != row.origin_product:
            raise DefinitionError.at(
                "origin_product",
                f"was set to {row.origin_product!r} when the workflow was created and stays so",
                "leave it as it is, or create another workflow",
            )
        warnings = _warnings(connection, row.project_id, workflow)
        if _without_status(workflow.document) == _without_status(row.definition):
            return Saved(row, "unchanged", warnings)
        now = self._clock.now()
        changed = dataclasses.replace(
            row,
            name=workflow.name or "",
            description=workflow.description,
            version=row.version + 1,
            definition=workflow.document,
            changed_epoch=store.bump_epoch(connection),
            updated_at=now,
        )
        store.update(connection, row.id, **_changes(row, changed))
        store.add_revision(connection, row.id, changed.version, changed.definition, by, now)
        self._saved(connection, changed)
        return Saved(changed, "updated", warnings)

    async def enable(self, project_id: str, workflow_id: str, by: str) -> Saved:
        """Let it start runs: it sees what is accepted from now on, and nothing that was accepted before."""
        for _ in range(_ENABLE_TRIES):
            read = await self.get(project_id, workflow_id)
            _refuse_archived(read)
            # Parsed again: a release may have become stricter since it was saved.
            workflow = await self.parse(project_id, dict(read.definition))
            saved = await self._enable_as_read(read, workflow, by)
            if saved is not None:
                return saved
        raise Conflict(f"workflow {read.name!r} was changed while it was being enabled", hint="enable it again")

    async def _enable_as_read(self, read: WorkflowRow, workflow: Workflow, by: str) -> Saved | None:
        """None when it has another version by now, which nobody has parsed."""

        def enable(connection: sa.Connection) -> Saved | None:
            row = store.get(connection, read.project_id, read.id, lock=True)
            return self._enable(connection, row, workflow, by) if row.version == read.version else None

        return await self._write(enable)

    def _enable(self, connection: sa.Connection, row: WorkflowRow, workflow: Workflow, by: str) -> Saved:
        """Enable a locked row whose definition was parsed into this workflow."""
        _refuse_archived(row)
        warnings = _warnings(connection, row.project_id, workflow)
        if row.status == "active":
            return Saved(row, "unchanged", warnings)
        epoch = store.bump_epoch(connection)
        changed = dataclasses.replace(
            row,
            status="active",
            changed_epoch=epoch,
            since_epoch=epoch,
            enabled_by=by,
            updated_at=self._clock.now(),
        )
        store.update(connection, row.id, **_changes(row, changed))
        self._saved(connection, changed)
        return Saved(changed, "unchanged", warnings, enabled=True)

    async def disable(self, project_id: str, workflow_id: str) -> WorkflowRow:
        """Start no more runs; runs that have begun go on to their end."""
        return await self._retire(project_id, workflow_id, "draft")

    async def archive(self, project_id: str, workflow_id: str) -> WorkflowRow:
        """Disable for good."""
        return await self._retire(project_id, workflow_id, "archived")

    async def _retire(self, project_id: str, workflow_id: str, status: str) -> WorkflowRow:
        def retire(connection: sa.Connection) -> WorkflowRow:
            row = store.get(connection, project_id, workflow_id, lock=True)
            if row.status in {status, "archived"}:
                return row
            epoch = store.bump_epoch(connection)
            changed = dataclasses.replace(row, status=status, changed_epoch=epoch, updated_at=self._clock.now())
            store.update(connection, row.id, **_changes(row, changed))
            self._saved(connection, changed)
            return changed

        return await self._write(retire)

    async def apply(self, project_id: str, document: JsonValue, by: str, *, enable: bool = False) -> Saved:
        """Make the project's workflow of this name be what the document says: created, updated or left alone.

        The document's status counts when it creates; afterwards a workflow stays as enabled as it is, unless
        `enable`. Raises Conflict when several workflows have the name.
        """
        workflow = await self.parse(project_id, document)
        if not workflow.name:
            raise DefinitionError.at("name", "is missing", "apply finds a workflow by its name: give it one")

        def put(connection: sa.Connection) -> Saved:
            # Two applies of a new name at once must not both create it: the epoch's row lets one through at a time.
            store.bump_epoch(connection)
            same = store.named(connection, project_id, workflow.name or "")
            if len(same) > 1:
                raise Conflict(
                    f"{len(same)} workflows are named {workflow.name!r}", hint="rename or archive all but one"
                )
            saved = (
                self._update(connection, same[0], workflow, by)
                if same
                else self._create(connection, project_id, workflow, by)
            )
            if enable:
                # What is stored now is what was parsed above, whether or not this changed it.
                row = store.get(connection, project_id, saved.row.id, lock=True)
                enabled = self._enable(connection, row, workflow, by)
                return dataclasses.replace(saved, row=enabled.row, enabled=enabled.enabled)
            return saved

        return await self._write(put)

    async def check(self, project_id: str, document: JsonValue) -> tuple[Fault, ...]:
        """What saving a document would warn of, without storing it."""
        workflow = await self.parse(project_id, document)
        return await self._reader.read(lambda connection: _warnings(connection, project_id, workflow))

    async def get(self, project_id: str, workflow_id: str) -> WorkflowRow:
        """One workflow."""
        return await self._reader.read(lambda connection: store.get(connection, project_id, workflow_id))

    async def parse(self, project_id: str, document: JsonValue) -> Workflow:
        """What a document would be in this project. Stores nothing."""
        project = await self._reader.read(lambda connection: project_filters(connection, project_id))
        # Beside the event loop: a large document takes long enough to hold up everything else.
        workflow = await off_loop(lambda: parse_workflow(document, project))
        outside = NOTHING_KNOWN if self._outside is None else await self._outside(project_id, workflow)
        return await off_loop(lambda: linted(workflow, outside))


def _warnings(connection: sa.Connection, project_id: str, workflow: Workflow) -> tuple[Fault, ...]:
    """What the definition alone is warned about, and what it names that this project does not have."""
    return (*workflow.warnings, *connection_warnings(connection, project_id, workflow))


def _refuse_archived(row: WorkflowRow) -> None:
    if row.status == "archived":
        raise Conflict(f"workflow {row.name!r} is archived", hint="create it anew to use it again")


def _without_status(document: Mapping[str, Any]) -> str:
    """What makes a definition, as text, since to Python `true` equals 1. Whether the workflow is enabled is told in it
    and kept apart."""
    return json.dumps({key: value for key, value in document.items() if key != "status"}, sort_keys=True)


def _changes(before: WorkflowRow, after: WorkflowRow) -> dict[str, Any]:
    return {
        field.name: getattr(after, field.name)
        for field in dataclasses.fields(WorkflowRow)
        if getattr(after, field.name) != getattr(before, field.name)
    }


def shown(row: WorkflowRow) -> Mapping[str, Any]:
    """A workflow as the API and the command line show it: its definition with the server's keys."""
    return {
        **row.definition,
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "version": row.version,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }
