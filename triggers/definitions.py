"""The index of enabled loops, kept at the definitions' epoch.

Every batch reads the epoch in its own transaction and loads what changed since, so a loop that was just enabled sees
the next event in every process. A definition that cannot be compiled any more is left out alone, with its reason.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.definition import CompiledWorkflow, listening_filter, listening_mask
from loops.definition.brakes import stored_brakes
from loops.errors import DefinitionError
from loops.filters import NO_PROJECT, ProjectFilters, compile_filter
from loops.projects import project_filters
from loops.runs.state import RunState
from loops.store import workflows as store
from loops.store.workflows import WorkflowRow
from triggers.brakes import rules_of
from triggers.masking import mask_of
from triggers.matcher import Index, Listener
from triggers.names import RepositoryNames
from triggers.source import Topic

log = logging.getLogger("loops.definitions")

ReadRevision: TypeAlias = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Broken:
    """An enabled workflow that cannot listen, and why."""

    workflow_id: str
    version: int
    reason: str


class Definitions:
    """The index and the epoch that it stands at. Used by one transaction at a time."""

    def __init__(
        self,
        begin: Callable[[str, int, ProjectFilters, ReadRevision], RunState],
        writes: Callable[[str, int, ProjectFilters, ReadRevision], tuple[str, ...]],
    ) -> None:
        """`begin` gives the first state of a run of a revision, `writes` what it may change outside; the last argument
        of both reads the revision, if they do not know it."""
        self.index = Index()
        self.names = RepositoryNames()
        self._writes = writes
        self.broken: dict[str, Broken] = {}
        self._alone: dict[str, Listener] = {}
        self._epoch = 0
        self._begin = begin
        self._names: dict[str, str] = {}
        self._projects: dict[str, ProjectFilters] = {}

    def refresh(self, connection: sa.Connection) -> None:
        """Bring the index to the epoch that this transaction sees."""
        self.names.refresh(connection)
        epoch = store.definitions_epoch(connection)
        if epoch == self._epoch:
            return
        self._projects.clear()  # a project's own filters count as a change of its workflows
        for row in store.changed_since(connection, self._epoch):
            self.take(connection, row)
        self._epoch = epoch

    def unheard(self, project_id: str, source: str, topics: Sequence[Topic]) -> int | None:
        """The epoch at which no loop could have listened for any of these; None when one could.

        May be asked from another thread than the one that refreshes: an index that is being changed stands at an epoch
        that the accepting transaction no longer sees, which makes the answer void.
        """
        epoch, index, names = self._epoch, self.index, self.names
        if any(index.reaches(project_id, source, topic) or names.may_differ(topic) for topic in topics):
            return None
        return epoch

    def forget(self) -> None:
        """Load everything anew at the next refresh: what was read in a transaction that failed may never have been."""
        self.index = Index()
        self.names.forget()
        self.broken.clear()
        self._alone.clear()
        self._projects.clear()
        self._epoch = 0

    def listeners(self) -> list[Listener]:
        """Every listener, in no particular order."""
        return self.index.listeners()

    def alone(self, workflow_id: str) -> Listener | None:
        """The listener of an enabled workflow whose events are sent to it alone; None for all others."""
        return self._alone.get(workflow_id)

    def listener(self, workflow_id: str) -> Listener | None:
        """The listener of an enabled workflow; None where it has none."""
        return self._alone.get(workflow_id) or self.index.get(workflow_id)

    def name(self, workflow_id: str) -> str:
        """The workflow's name as last seen."""
        return self._names.get(workflow_id, workflow_id)

    def initial_state(self, connection: sa.Connection, listener: Listener) -> RunState:
        """The state that a run of this listener's revision begins with."""
        project = self._project(connection, listener.project_id)
        return self._begin(listener.key, listener.version, project, _reading(connection, listener))

    def writes(self, connection: sa.Connection, listener: Listener) -> tuple[str, ...]:
        """What a run of this listener's revision may change outside, in words."""
        project = self._project(connection, listener.project_id)
        return self._writes(listener.key, listener.version, project, _reading(connection, listener))

    def _project(self, connection: sa.Connection, project_id: str) -> ProjectFilters:
        if project_id not in self._projects:
            self._projects[project_id] = project_filters(connection, project_id)
        return self._projects[project_id]

    def take(self, connection: sa.Connection, row: WorkflowRow) -> None:
        """Put a workflow's listener in place of the one that it had."""
        self.index.remove(row.id)
        self.broken.pop(row.id, None)
        self._alone.pop(row.id, None)
        self._names[row.id] = row.name
        if row.status != "active":
            return
        try:
            listener = listener_of(row, self._project(connection, row.project_id))
        except DefinitionError as error:
            self.broken[row.id] = Broken(row.id, row.version, error.message)
            log.warning("workflow cannot listen", extra={"workflow_id": row.id, "reason": error.message})
            return
        if listener is None:
            return
        if listener.kind == "webhook":
            self._alone[row.id] = listener
        else:
            self.index.add(listener)


def _reading(connection: sa.Connection, listener: Listener) -> ReadRevision:
    def read() -> Mapping[str, Any]:
        definition = store.revision(connection, listener.key, listener.version)
        if definition is None:
            raise DefinitionError.at("", f"workflow {listener.key} has no revision {listener.version}")
        return definition

    return read


def listener_of(row: WorkflowRow, project: ProjectFilters = NO_PROJECT) -> Listener | None:
    """What an enabled workflow listens to; None for triggers that no delivery starts (schedule, manual).

    Raises DefinitionError where the trigger's filter cannot be compiled, or its masking or brakes not read.
    """
    config = _trigger_config(row.definition)
    compiled = listening_filter(config, project)
    if config["type"] == "webhook":
        compiled = compile_filter({}, project=project)
    if compiled is None:
        return None
    return Listener(
        key=row.id,
        filter=compiled,
        since=row.since_epoch,
        version=row.version,
        project_id=row.project_id,
        kind=config["type"],
        allows_unverified=config.get("allow_unverified") is True,
        brakes=rules_of(stored_brakes(row.definition)),
        mask=mask_of(listening_mask(row.definition.get("trigger_masking"), config)),
        # Rather too often than once too few: what really turns on it is found out event by event.
        asks_access="actor_access" in f"{config} {project}",
    )


def listener_of_draft(
    compiled: CompiledWorkflow, project: ProjectFilters, project_id: str, workflow_id: str, version: int
) -> Listener:
    """What the workflow would listen to if it were enabled."""
    config, masking = compiled.workflow.trigger.config, compiled.workflow.trigger_masking
    return Listener(
        key=workflow_id,
        filter=compiled.filter or compile_filter({}, project=project),
        since=0,
        version=version,
        project_id=project_id,
        kind=config.type,  # type: ignore[arg-type]  # others are never held against a filter
        allows_unverified=getattr(config, "allow_unverified", None) is True,
        mask=mask_of(masking if config.maskable else None),
        brakes=rules_of(compiled.workflow.brakes, maskable=config.maskable),
    )


def _trigger_config(definition: object) -> Mapping[str, Any]:
    """Trusts nothing: what is stored may be older than this release, or damaged."""
    actions = definition.get("actions") if isinstance(definition, dict) else None
    for action in actions if isinstance(actions, list) else ():
        config = action.get("config") if isinstance(action, dict) and action.get("type") == "trigger" else None
        if isinstance(config, dict):
            return config
    raise DefinitionError.at("actions", "the stored definition has no trigger")
