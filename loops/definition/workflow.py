"""A workflow as a value."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from loops.definition.brakes import Brakes
from loops.definition.schema.actions import Action, TriggerAction
from loops.definition.schema.parts import Edge, Masking, Variable
from loops.errors import Fault
from loops.event import JsonValue

Status = Literal["draft", "active", "archived"]


@dataclass(frozen=True)
class Workflow:
    """A definition that has passed every check.

    `document` is the JSON that was accepted, without the keys that belong to the server and otherwise in the form in
    which it was given; treat it as read-only. `warnings` tell what is allowed but probably not meant.
    """

    name: str
    description: str
    status: Status
    origin_product: str | None
    exit_condition: str
    trigger_masking: Masking | None
    brakes: Brakes
    variables: tuple[Variable, ...]
    actions: tuple[Action, ...]
    edges: tuple[Edge, ...]
    document: Mapping[str, JsonValue]
    warnings: tuple[Fault, ...] = ()

    @cached_property
    def _by_id(self) -> Mapping[str, Action]:
        return {action.id: action for action in self.actions}

    @cached_property
    def _ways(self) -> Mapping[tuple[str, str, int | None], str]:
        ways: dict[tuple[str, str, int | None], str] = {}
        for edge in self.edges:
            ways.setdefault((edge.source, edge.type, edge.index), edge.target)
        return ways

    @cached_property
    def trigger(self) -> TriggerAction:
        """The one action of type trigger."""
        return next(action for action in self.actions if action.type == "trigger")

    def action(self, action_id: str) -> Action:
        """The action with this id; KeyError if there is none."""
        return self._by_id[action_id]

    def next_action(self, action_id: str) -> str | None:
        """Where the first continue edge leads, None where no edge leaves."""
        return self._ways.get((action_id, "continue", None))

    def branch(self, action_id: str, index: int) -> str | None:
        """Where the branch with this index leads, None where nothing is connected to it."""
        return self._ways.get((action_id, "branch", index))

    def initial_variables(self) -> dict[str, JsonValue]:
        """The variables of a run that has not begun: their defaults, an empty one staying an empty text."""
        return {variable.key: variable.default for variable in self.variables}


def export_workflow(workflow: Workflow) -> dict[str, JsonValue]:
    """The workflow as JSON, equal to what was accepted without the server's keys; the caller may change it."""
    return copy.deepcopy(dict(workflow.document))
