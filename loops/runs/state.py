"""A run as a value, and the one function that moves it.

    begin(graph)                    -> state, effect
    transition(graph, state, came)  -> state, effect

An effect says what must happen next: execute an action, park until something wakes the run, or finish. Whoever drives
the run makes the effect happen, stores what came of it together with the new state, and asks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from loops.event import JsonValue
from loops.runs.variables import OutputVariable, VariablesTooLargeError, assign

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
OVER: frozenset[str] = frozenset({"completed", "failed", "cancelled"})
MOST_STEPS = 200
_FEWER = "use result_path to store only what later steps need"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a parked step waits for: `kind` (timer, task, approval, …), and until when at the latest."""

    kind: str
    deadline: datetime
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The step did its work; `result` is what later steps read. Variables refer to what is long in it where `referred`
    is set, and copy it otherwise. `skipped` says why the step did not do its work, where that is no failure."""

    result: JsonValue = None
    referred: bool = False
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The step could not do its work. `code` is stable, `partial` what there is of a result; with `told` whoever would
    have got the result gets the partial one when the run ends by this."""

    code: str
    message: str
    hint: str = ""
    partial: JsonValue = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class Parked:
    """The step waits; it goes on when it is woken or at the deadline."""

    wait: Wait


@dataclass(frozen=True, slots=True)
class Ended:
    """The step ends the run on purpose (exit)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody asked for the run to be cancelled, and what it was doing has stopped."""


Outcome: TypeAlias = Succeeded | Failed | Parked | Ended | Cancelled


@dataclass(frozen=True, slots=True)
class Execute:
    """Run this action's step now."""

    action: str


@dataclass(frozen=True, slots=True)
class Park:
    """Store the wait and end this segment."""

    action: str
    wait: Wait


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str


Effect: TypeAlias = Execute | Park | Finish


class Node(Protocol):
    """What a transition needs to know of an action."""

    @property
    def on_error(self) -> str | None: ...
    @property
    def outputs(self) -> tuple[OutputVariable, ...]: ...


class Graph(Protocol):
    """What a transition needs to know of a definition."""

    def start(self) -> str: ...
    def node(self, action: str) -> Node: ...
    def after(self, action: str) -> str | None: ...
    def initial_variables(self) -> Mapping[str, JsonValue]: ...


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands: the action that acts next, how many have acted, which acted last, and the variables.
    `skipped` says why a step did not do its work, the first one of them."""

    position: str | None
    steps: int = 0
    variables: Mapping[str, JsonValue] = field(default_factory=dict)
    previous: str | None = None
    skipped: str = ""

    def as_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "position": self.position,
            "steps": self.steps,
            "previous": self.previous,
            "variables": dict(self.variables),
            **({"skipped": self.skipped} if self.skipped else {}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RunState":
        """The value of a stored form."""
        variables, skipped = stored.get("variables", {}), stored.get("skipped", "")
        return cls(stored.get("position"), stored.get("steps", 0), variables, stored.get("previous"), skipped)


def begin(graph: Graph, overrides: Mapping[str, JsonValue] | None = None) -> RunState:
    """The state of a run that has not done anything; `overrides` replace variables' defaults."""
    first = graph.after(graph.start())
    return RunState(first, variables={**graph.initial_variables(), **(overrides or {})})


def next_effect(state: RunState) -> Effect:
    """What a run in this state does."""
    if state.position is None:
        return _completed(state, "the last step has no way on")
    if state.steps >= MOST_STEPS:
        return Finish("failed", f"limit of {MOST_STEPS} steps a run reached before {state.position!r}")
    return Execute(state.position)


def _completed(state: RunState, reason: str) -> Finish:
    """The end of a run that failed nowhere; one whose work was skipped says so before anything else."""
    return Finish("completed", f"skipped: {state.skipped}" if state.skipped else reason)


def transition(graph: Graph, state: RunState, came: Outcome) -> tuple[RunState, Effect]:
    """The state after the action at `state.position` came to `came`, and what follows."""
    action = state.position
    if action is None:
        raise ValueError("a run without a position has no step that could come to anything")
    came = judged(graph, state, came)
    if isinstance(came, Parked):
        return state, Park(action, came.wait)
    acted = replace(state, steps=state.steps + 1)
    if isinstance(came, Cancelled):
        return acted, Finish("cancelled", "cancelled on request")
    if isinstance(came, Ended):
        return acted, _completed(acted, came.reason)
    if isinstance(came, Succeeded):
        return _succeed(graph, acted, action, came)
    return _fail(graph, acted, action, came)


def judged(graph: Graph, state: RunState, came: Outcome) -> Outcome:
    """What a step counts as: a success whose variables do not fit is a failure of the step."""
    if state.position is None or not isinstance(came, Succeeded):
        return came
    try:
        _assigned(graph, state, state.position, came)
    except VariablesTooLargeError as error:
        return Failed("variables.too_large", error.args[0], _FEWER, came.result, told=came.referred)
    return came


def _succeed(graph: Graph, state: RunState, action: str, came: Succeeded) -> tuple[RunState, Effect]:
    variables, skipped = _assigned(graph, state, action, came), state.skipped or came.skipped
    return _go_on(graph, replace(state, variables=variables, skipped=skipped), action)


def _assigned(graph: Graph, state: RunState, action: str, came: Succeeded) -> Mapping[str, JsonValue]:
    refer_to = action if came.referred else None
    return assign(state.variables, graph.node(action).outputs, came.result, refer_to=refer_to)


def _fail(graph: Graph, state: RunState, action: str, came: Failed) -> tuple[RunState, Effect]:
    if graph.node(action).on_error == "continue":
        return _go_on(graph, state, action)
    return state, Finish("failed", f"{action}: {came.message}")


def _go_on(graph: Graph, state: RunState, action: str) -> tuple[RunState, Effect]:
    moved = replace(state, position=graph.after(action), previous=action)
    return moved, next_effect(moved)
