"""Stored definitions as programs: compiled once a revision, however many runs hold it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from loops.definition import CompiledWorkflow, compile_workflow, parse_workflow
from loops.event import JsonValue
from loops.runs.program import ClaimedEvent, unpack
from loops.runs.state import RunState, begin
from loops.runs.variables import OutputVariable
from loops.store.runs import Claimed

_KEPT_REVISIONS = 512


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
    """Compiles revisions and keeps the ones used last. Revisions never change, so nothing here grows stale."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], LoadedProgram] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, claimed: Claimed) -> LoadedProgram:
        """The program of a claimed run. Raises DefinitionError where this release refuses the definition."""
        return self._program((claimed.workflow_id, claimed.version), claimed.definition)

    def begin(self, workflow_id: str, version: int, read: Callable[[], Mapping[str, Any]]) -> RunState:
        """The state of a new run of this revision, whose definition is read only if it is not known."""
        return begin(self._asked((workflow_id, version), read))

    def writes(self, workflow_id: str, version: int, read: Callable[[], Mapping[str, Any]]) -> tuple[str, ...]:
        """What runs of this revision may change outside, in words; read likewise."""
        return self._asked((workflow_id, version), read).writes

    def _asked(self, revision: tuple[str, int], read: Callable[[], Mapping[str, Any]]) -> LoadedProgram:
        return self._known(revision) or self._program(revision, read())

    def _known(self, revision: tuple[str, int]) -> LoadedProgram | None:
        with self._lock:  # runs are driven on the event loop, and begun on the writer's thread
            known = self._kept.get(revision)
            if known is not None:
                self._kept.move_to_end(revision)
            return known

    def _program(self, revision: tuple[str, int], definition: Mapping[str, Any]) -> LoadedProgram:
        known = self._known(revision)
        if known is not None:
            return known
        # Not dict(definition): what is stored may be damaged, and parse_workflow tells it as it tells every fault.
        program = LoadedProgram(compile_workflow(parse_workflow(cast("JsonValue", definition))))
        with self._lock:
            self._kept[revision] = program
            if len(self._kept) > _KEPT_REVISIONS:
                self._kept.popitem(last=False)
        return program
