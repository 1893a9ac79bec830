"""The life of workflows: create, change, enable, disable, archive, apply. One set of checks for every surface."""

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from loops.changes import (
    ANY_BASE,
    Base,
    Change,
    Retired,
    Running,
    Saved,
    column_changes,
    origin_fault,
    refuse_archived,
    with_changes,
    without_status,
)
from loops.connections.named import connection_warnings
from loops.definition import Workflow, parse_workflow
from loops.definition.graph_patch import patched
from loops.definition.lint import linted
from loops.definition.lint_subject import NOTHING_KNOWN, Outside
from loops.errors import Conflict, DefinitionError, Fault
from loops.event import JsonValue
from loops.ports import Clock, Reader, Writer
from loops.projects import project_filters
from loops.runs.control import Stopped
from loops.schedules.file import Entry, read_entries, split
from loops.schedules.timetable import timetable
from loops.scheduling import Schedules
from loops.spaces import space_of
from loops.store import run_queries
from loops.store import workflows as store
from loops.store.run_queries import UnderWay
from loops.store.workflows import WorkflowRow
from loops.threads import off_loop

T = TypeVar("T")

_TRIES = 2


async def _nothing_runs(_workflow_id: str) -> Stopped:
    """The `cancel` of an installation without runs."""
    return Stopped()


class Workflows:
    """Raises DefinitionError with every fault, NotFound, or Conflict."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        saved: Callable[[sa.Connection, WorkflowRow], None] = lambda _connection, _row: None,
        cancel: Callable[[str], Awaitable[Stopped]] = _nothing_runs,
        schedules: Schedules | None = None,
        outside: Callable[[str, Workflow], Awaitable[Outside]] | None = None,
        named: Callable[[str, Workflow], Awaitable[tuple[tuple[Fault, ...], tuple[Fault, ...]]]] | None = None,
    ) -> None:
        """`saved` is called with each stored change, inside of its transaction; `changed` after it. `cancel` cancels
        what runs of a workflow. `outside` looks at what lint cannot see of a project's workflow, `named` at what its
        tasks name: the faults and warnings of that."""
        self._cancel = cancel
        self._outside = outside
        self._named = named
        self._changed = changed
        self._also = saved
        self._schedules = schedules or Schedules(writer, reader, clock)
        self._writer = writer
        self._reader = reader
        self._clock = clock

    async def _write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Change definitions, and tell this process that they did."""
        result = await self._writer.run(fn)
        self._changed()
        return result

    def _saved(self, connection: sa.Connection, row: WorkflowRow) -> None:
        """What follows a stored change, inside of its transaction."""
        self._also(connection, row)
        self._schedules.follow(connection, row)

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
            space=space_of(workflow.document),
        )
        store.insert(connection, row)
        self._saved(connection, row)
        return Saved(row, "created", _warnings(connection, project_id, workflow))

    async def update(
        self, project_id: str, workflow_id: str, document: JsonValue, by: str, *, base: Base = ANY_BASE
    ) -> Saved:
        """Replace the definition, as a new version; runs in flight keep theirs.

        Raises Conflict when `base` is not the current one, DefinitionError when origin_product would change.
        """
        workflow = await self.parse(project_id, document)

        def change(connection: sa.Connection) -> Saved:
            row = store.get(connection, project_id, workflow_id, lock=True)
            base.check(row)
            return self._update(connection, row, workflow, by)

        return await self._write(change)

    async def patch(
        self, project_id: str, workflow_id: str, changes: Mapping[str, JsonValue], by: str, *, base: Base = ANY_BASE
    ) -> Saved:
        """Set some keys of the definition (SETTABLE), the others stay: a new version. Raises as `update`."""
        return await self._rewrite(project_id, workflow_id, by, base, lambda document: with_changes(document, changes))

    async def patch_graph(
        self, project_id: str, workflow_id: str, operations: JsonValue, by: str, *, base: Base = ANY_BASE
    ) -> Saved:
        """Apply operations of loops/definition/graph_patch.py to its actions and edges, all or none: a new version.
        Raises as `update`; the paths of faults begin with `operations` where these do not fit the graph."""
        return await self._rewrite(project_id, workflow_id, by, base, lambda document: patched(document, operations))

    async def _rewrite(
        self,
        project_id: str,
        workflow_id: str,
        by: str,
        base: Base,
        rewrite: Callable[[Mapping[str, JsonValue]], JsonValue],
    ) -> Saved:
        for _ in range(_TRIES):
            read = await self.get(project_id, workflow_id)
            base.check(read)
            workflow = await self.parse(project_id, rewrite(read.definition))
            saved = await self._as_read(read, partial(self._update, workflow=workflow, by=by))
            if saved is not None:
                return saved
        raise Conflict(f"workflow {read.name!r} was changed by somebody else meanwhile", hint="do it again")

    async def _as_read(self, read: WorkflowRow, change: Callable[[sa.Connection, WorkflowRow], Saved]) -> Saved | None:
        """Change the row, held; None when it has another version by now, on which nobody has looked."""

        def changed(connection: sa.Connection) -> Saved | None:
            row = store.get(connection, read.project_id, read.id, lock=True)
            return change(connection, row) if row.version == read.version else None

        return await self._write(changed)

    def _update(self, connection: sa.Connection, row: WorkflowRow, workflow: Workflow, by: str) -> Saved:
        if workflow.origin_product != row.origin_product:
            raise DefinitionError(origin_fault(row.origin_product))
        warnings = _warnings(connection, row.project_id, workflow)
        if without_status(workflow.document) == without_status(row.definition):
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
            space=space_of(workflow.document),
        )
        store.update(connection, row.id, **column_changes(row, changed))
        store.add_revision(connection, row.id, changed.version, changed.definition, by, now)
        self._saved(connection, changed)
        return Saved(changed, "updated", warnings)

    async def enable(self, project_id: str, workflow_id: str, by: str) -> Saved:
        """Let it start runs: it sees what is accepted from now on, and nothing that was accepted before."""
        for _ in range(_TRIES):
            read = await self.get(project_id, workflow_id)
            refuse_archived(read)
            # Parsed again: a release may have become stricter since it was saved.
            workflow = await self.parse(project_id, dict(read.definition))
            saved = await self._as_read(read, partial(self._enable, workflow=workflow, by=by))
            if saved is not None:
                return saved
        raise Conflict(f"workflow {read.name!r} was changed while it was being enabled", hint="enable it again")

    def _enable(self, connection: sa.Connection, row: WorkflowRow, workflow: Workflow, by: str) -> Saved:
        """Enable a locked row whose definition was parsed into this workflow."""
        refuse_archived(row)
        lacking = self._schedules.lacking(connection, row)
        warnings = (*_warnings(connection, row.project_id, workflow), *lacking)
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
        store.update(connection, row.id, **column_changes(row, changed))
        self._saved(connection, changed)
        return Saved(changed, "unchanged", warnings, enabled=True)

    async def disable(self, project_id: str, workflow_id: str, *, running: Running | None = None) -> Retired:
        """Start no more runs. What is under way goes on (`drain`) or is cancelled (`cancel`).

        Raises Conflict, and disables nothing, where something is under way and `running` does not say which.
        """
        return await self._retire(project_id, workflow_id, "draft", running)

    async def archive(self, project_id: str, workflow_id: str, *, running: Running | None = None) -> Retired:
        """Disable for good; see `disable`."""
        return await self._retire(project_id, workflow_id, "archived", running)

    async def _retire(self, project_id: str, workflow_id: str, status: str, running: Running | None) -> Retired:
        def retire(connection: sa.Connection) -> Retired:
            row = store.get(connection, project_id, workflow_id, lock=True)
            under_way = run_queries.under_way(connection, row.id)
            if row.status not in {status, "archived"}:
                if under_way and running is None:
                    raise _asks_what_becomes_of(row, under_way)
                row = self._retired(connection, row, status)
            return Retired(row, draining=under_way.count)

        retired = await self._write(retire)
        if running != "cancel":
            return retired
        stopped = await self._cancel(workflow_id)
        return Retired(retired.row, cancelled=stopped.cancelled, stopping=stopped.stopping)

    def _retired(self, connection: sa.Connection, row: WorkflowRow, status: str) -> WorkflowRow:
        epoch = store.bump_epoch(connection)
        changed = dataclasses.replace(row, status=status, changed_epoch=epoch, updated_at=self._clock.now())
        store.update(connection, row.id, **column_changes(row, changed))
        self._saved(connection, changed)
        return changed

    async def apply(self, project_id: str, document: JsonValue, by: str, *, enable: bool = False) -> Saved:
        """Make the project's workflow of this name be what the document says: created, updated or left alone.

        The document's status counts when it creates; afterwards a workflow stays as enabled as it is, unless
        `enable`. Where the document has `schedules`, the workflow's are made to be those. Raises Conflict when several
        workflows have the name.
        """
        workflow, entries = await self._parse_file(project_id, document)
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
            if entries is not None:
                saved = self._put_schedules(connection, saved, entries)
            if enable:
                # What is stored now is what was parsed above, whether or not this changed it.
                row = store.get(connection, project_id, saved.row.id, lock=True)
                enabled = self._enable(connection, row, workflow, by)
                warnings = (*saved.warnings, *self._schedules.lacking(connection, row))
                return dataclasses.replace(saved, row=enabled.row, enabled=enabled.enabled, warnings=warnings)
            return saved

        return await self._write(put)

    def _put_schedules(self, connection: sa.Connection, saved: Saved, entries: tuple[Entry, ...]) -> Saved:
        changed, warnings = self._schedules.put(connection, saved.row, entries)
        change: Change = "updated" if changed and saved.change == "unchanged" else saved.change
        return dataclasses.replace(saved, change=change, warnings=(*saved.warnings, *warnings))

    async def check(self, project_id: str, document: JsonValue) -> tuple[Fault, ...]:
        """What applying a document would warn of, without storing it."""
        workflow, entries = await self._parse_file(project_id, document)

        def look(connection: sa.Connection) -> tuple[Fault, ...]:
            warnings = _warnings(connection, project_id, workflow)
            if entries is None:
                return warnings
            same = store.named(connection, project_id, workflow.name or "")
            removed = [one for row in same for one in self._schedules.would_remove(connection, row, entries)]
            return (*warnings, *(one for entry in entries for one in entry.warnings), *removed)

        return await self._reader.read(look)

    async def page(
        self,
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
        """Workflows, the newest first, below a (created_at, id); archived ones only by that status. `search` finds what
        stands in a name or description, in whatever case; `space` is the id of one in which they list their runs."""
        return await self._reader.read(
            lambda connection: store.page(
                connection,
                project_id,
                limit=limit,
                before=before,
                status=status,
                origin_product=origin_product,
                name=name,
                search=search,
                space=space,
            )
        )

    async def get(self, project_id: str, workflow_id: str) -> WorkflowRow:
        """One workflow."""
        return await self._reader.read(lambda connection: store.get(connection, project_id, workflow_id))

    async def _parse_file(self, project_id: str, document: JsonValue) -> tuple[Workflow, tuple[Entry, ...] | None]:
        """The workflow that a file describes and its schedules, None where it says nothing about them."""
        definition, given = split(document)
        workflow = await self.parse(project_id, definition)
        if given is None:
            return workflow, None
        of_loop = workflow.origin_product == "loops"
        declared = {one.key for one in workflow.variables}
        entries = await off_loop(lambda: read_entries(given, of_loop=of_loop, declared=declared))
        now = self._clock.now()
        await off_loop(lambda: [timetable(entry.timing).next_after(now) for entry in entries])
        return workflow, entries

    async def parse(self, project_id: str, document: JsonValue) -> Workflow:
        """What a document would be in this project. Stores nothing."""
        project = await self._reader.read(lambda connection: project_filters(connection, project_id))
        # Beside the event loop: a large document takes long enough to hold up everything else.
        workflow = await off_loop(lambda: parse_workflow(document, project))
        if self._named is not None:
            faults, warnings = await self._named(project_id, workflow)
            if faults:
                raise DefinitionError(faults)
            workflow = dataclasses.replace(workflow, warnings=(*workflow.warnings, *warnings))
        outside = NOTHING_KNOWN if self._outside is None else await self._outside(project_id, workflow)
        return await off_loop(lambda: linted(workflow, outside))


def _warnings(connection: sa.Connection, project_id: str, workflow: Workflow) -> tuple[Fault, ...]:
    """What the definition alone is warned about, and what it names that this project does not have."""
    return (*workflow.warnings, *connection_warnings(connection, project_id, workflow))


def _asks_what_becomes_of(row: WorkflowRow, under_way: UnderWay) -> Conflict:
    runs = "1 run" if under_way.count == 1 else f"{under_way.count} runs"
    more = ", …" if under_way.count > len(under_way.ids) else ""
    return Conflict(
        f"{runs} of workflow {row.name!r} {'is' if under_way.count == 1 else 'are'} under way "
        f"({under_way.words}): {', '.join(under_way.ids)}{more}",
        hint="say what becomes of them: running=drain lets them go on to their end, running=cancel cancels them",
        path="running",
    )
