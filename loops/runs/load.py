"""Stored definitions as programs: compiled once a revision, however many runs hold it."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from loops.definition import CompiledWorkflow, compile_workflow, parse_workflow
from loops.event import JsonValue
from loops.filters import ProjectFilters
from loops.packed import unpack
from loops.projects import filters_of
from loops.runs.program import ClaimedEvent
from loops.runs.state import RunState, begin
from loops.runs.variables import OutputVariable
from loops.store.runs import Claimed

_KEPT_REVISIONS = 512
_FIELD = re.compile(r"output\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ActionNode:
    """What a transition reads of an action."""

    on_error: str | None
    outputs: tuple[OutputVariable, ...]


class LoadedProgram:
    """A Program over a compiled workflow."""

    def __init__(self, compiled: CompiledWorkflow) -> None:
        self._compiled = compiled
        self._workflow = compiled.workflow
        self._writes = compiled.writes

    @property
    def writes(self) -> tuple[str, ...]:
        """See CompiledWorkflow.writes."""
        return self._writes

    def start(self) -> str:
        return self._workflow.trigger.id

    def node(self, action: str) -> ActionNode:
        found = self._workflow.action(action)
        outputs = tuple(OutputVariable(one.key, one.result_path, one.spread) for one in found.output_variable)
        return ActionNode(found.on_error, outputs)

    def after(self, action: str) -> str | None:
        return self._workflow.next_action(action)

    def initial_variables(self) -> Mapping[str, JsonValue]:
        return self._workflow.initial_variables()

    def action(self, action_id: str) -> Any:  # noqa: ANN401 - one of the schema's action classes
        return self._workflow.action(action_id)

    def render(self, action_id: str, scope: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        return self._compiled.render(action_id, scope)

    def fields(self, action_id: str) -> Mapping[str, str]:
        """The fields `output.<name>` that the action's output variables ask for, with the types of those variables."""
        types = {variable.key: variable.type for variable in self._workflow.variables}
        fields: dict[str, str] = {}
        for one in self._workflow.action(action_id).output_variable:
            asked = _FIELD.fullmatch(one.result_path or "")
            if asked is not None:
                fields[asked[1]] = types.get(one.key, "string")
        return fields

    def scope(self, claimed: ClaimedEvent) -> Mapping[str, JsonValue]:
        """The roots that do not change while the run goes on: event, person, groups, project, source."""
        event = unpack(claimed.event) or {}
        return {
            "event": {key: value for key, value in event.items() if key not in {"person", "groups"}},
            "person": event.get("person"),
            "groups": event.get("groups") or {},
            "project": {"id": claimed.project_id},
            "source": {"name": self._workflow.name},
        }


class ProgramLoader:
    """Compiles revisions and keeps the ones used last. Revisions never change; where the settings of their project did,
    they are compiled anew."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[ProjectFilters, LoadedProgram]] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, claimed: Claimed) -> LoadedProgram:
        """The program of a claimed run. Raises DefinitionError where this release refuses the definition."""
        revision = (claimed.workflow_id, claimed.version)
        return self._program(revision, filters_of(claimed.project), lambda: claimed.definition)

    def begin(
        self, workflow_id: str, version: int, project: ProjectFilters, read: Callable[[], Mapping[str, Any]]
    ) -> RunState:
        """The state of a new run of this revision, whose definition is read only if it is not known."""
        return begin(self._program((workflow_id, version), project, read))

    def writes(
        self, workflow_id: str, version: int, project: ProjectFilters, read: Callable[[], Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """What runs of this revision may change outside, in words; read likewise."""
        return self._program((workflow_id, version), project, read).writes

    def _known(self, revision: tuple[str, int], project: ProjectFilters) -> LoadedProgram | None:
        with self._lock:  # runs are driven on the event loop, and begun on the writer's thread
            judged_by, program = self._kept.get(revision, (None, None))
            if judged_by is not project:
                return None
            self._kept.move_to_end(revision)
            return program

    def _program(
        self, revision: tuple[str, int], project: ProjectFilters, read: Callable[[], Mapping[str, Any]]
    ) -> LoadedProgram:
        known = self._known(revision, project)
        if known is not None:
            return known
        # Not dict(definition): what is stored may be damaged, and parse_workflow tells it as it tells every fault.
        workflow = parse_workflow(cast("JsonValue", read()), project)
        program = LoadedProgram(compile_workflow(workflow, project))
        with self._lock:
            self._kept[revision] = (project, program)
            self._kept.move_to_end(revision)
            if len(self._kept) > _KEPT_REVISIONS:
                self._kept.popitem(last=False)
        return program
