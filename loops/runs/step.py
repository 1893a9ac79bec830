"""What every step module offers, and what it is handed."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from loops.event import JsonValue
from loops.runs.state import Outcome, Wait


@dataclass(frozen=True, slots=True)
class StepContext:
    """One action about to act.

    `key` is the same whenever this step of this run is tried again: the idempotency key of its side effects.
    `render` gives the action's inputs with their templates rendered; it raises TemplateError.
    """

    run_id: str
    action: Any
    now: datetime
    render: Callable[[], Mapping[str, JsonValue]]
    log: Callable[[str], None] = field(default=lambda _text: None)

    @property
    def key(self) -> str:
        """The idempotency key of this step."""
        return f"{self.run_id}:{self.action.id}"


class Step(Protocol):
    """How an action type acts. A step that never parks has no use for `resume` and inherits NeverParks."""

    async def run(self, context: StepContext) -> Outcome:
        """Act. May be called again for the same key after a crash."""

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> Outcome:
        """Go on after a wait: `wake` is what woke the run, None when the deadline did."""


# How a function template acts: it is handed the step and its rendered inputs.
FunctionTemplate: TypeAlias = Callable[[StepContext, Mapping[str, JsonValue]], Awaitable[Outcome]]


class NeverParks:
    """The resume of steps that never wait."""

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> Outcome:  # noqa: ARG002
        """Never called by a run that was stored by this code."""
        raise RuntimeError(f"step {context.action.id!r} of type {context.action.type!r} does not wait")
