"""What every step module offers, and what it is handed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from loops.event import JsonValue
from loops.runs.state import Ended, Failed, Outcome, Succeeded, Wait

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class StepContext:
    """One action about to act.

    `key` is the same whenever this step of this run is tried again: the idempotency key of its side effects.
    `render` gives the action's inputs with their templates rendered; it raises TemplateError. `scope` is what templates
    read, `fields` the fields of the result, by name and type, that the action's output variables ask for.
    """

    run_id: str
    action: Any
    now: datetime
    render: Callable[[], Mapping[str, JsonValue]]
    log: Callable[[str], None] = field(default=lambda _text: None)
    project_id: str = ""
    workflow_id: str = ""
    scope: Mapping[str, JsonValue] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The idempotency key of this step."""
        return f"{self.run_id}:{self.action.id}"


@dataclass(frozen=True, slots=True)
class Transacted:
    """A step whose outcome is decided in the transaction that stores it, so that what it writes is there exactly once.

    `decide` may be called again when the transaction could not be committed; a LoopsError that it raises undoes what
    it wrote and fails the step. `after` is called once it is committed.
    """

    decide: "Callable[[Connection], Outcome]"
    after: Callable[[], None] = field(default=lambda: None)


StepOutcome: TypeAlias = Outcome | Transacted


@dataclass(frozen=True, slots=True)
class Mocked:
    """What a step comes to in a test run. `calls` are what it would have asked for outside, each as JSON with its
    `kind`."""

    came: Succeeded | Failed | Ended
    calls: tuple[Mapping[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Looked:
    """A step in a test run that has to look into the database, on a connection which cannot write."""

    decide: "Callable[[Connection], Mocked]"


MockedOutcome: TypeAlias = Mocked | Looked


class Step(Protocol):
    """How an action type acts. A step that never parks has no use for `resume` and inherits NeverParks."""

    async def run(self, context: StepContext) -> StepOutcome:
        """Act. May be called again for the same key after a crash."""

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        """Go on after a wait: `wake` is what woke the run, None when the deadline did."""


class MockedStep(Protocol):
    """How an action type takes part in a test run."""

    async def mock(self, context: StepContext) -> MockedOutcome:
        """What the step would come to, with everything outside mocked: nothing is stored, sent or asked. The same for
        the same context."""


class WholeStep(Step, MockedStep, Protocol):
    """What every action type has."""


class FunctionTemplate(Protocol):
    """How a function template acts: it is handed the step and its rendered inputs."""

    async def run(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> StepOutcome:
        """See Step.run."""

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None, /) -> StepOutcome:
        """See Step.resume."""

    async def mock(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> MockedOutcome:
        """See MockedStep.mock."""


class NeverParks:
    """The resume of what never waits."""

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:  # noqa: ARG002
        """Never called by a run that was stored by this code."""
        raise RuntimeError(f"step {context.action.id!r} of type {context.action.type!r} does not wait")
