"""One action of a test run: its inputs are rendered, what is outside is mocked, and nothing is kept.

What a run would know when it comes to the action (results of steps, variables) is worked out by playing the steps
before it in the same way, unless it is given.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from loops.connections.secrets import masked_json
from loops.definition.compiled import CompiledWorkflow
from loops.definition.findings import join
from loops.errors import DefinitionError, LoopsError
from loops.event import Event, JsonValue, event_json
from loops.packed import pack
from loops.ports import Clock, Reader
from loops.runs.load import LoadedProgram
from loops.runs.settling import failure
from loops.runs.state import Ended, Execute, Failed, Finish, Outcome, RunState, Succeeded, begin, judged, transition
from loops.runs.step import Looked, Mocked, MockedStep, StepContext
from loops.runs.trace import StepLog, storable_outcome
from loops.runs.variables import assign, resolved
from loops.threads import off_loop

log = logging.getLogger("loops.runs")

RUN_ID = "test"
TestStatus = Literal["success", "skipped", "error"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a test run pretends to have happened: the event; the variables and the results of steps that are given in
    place of those that mocked steps would have set."""

    event: Event
    variables: Mapping[str, JsonValue] = field(default_factory=dict)
    steps: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionTested:
    """What one action came to. `following` is the action that a run would go on with, None where it would end;
    `variables` are all as they are after it, `assigned` the names of those that it set; `verdict` is a trigger's, and
    `event` tells which event was taken."""

    action: str
    type: str
    name: str
    status: TestStatus
    following: str | None = None
    reason: str = ""
    inputs: Mapping[str, JsonValue] | None = None
    result: JsonValue = None
    variables: Mapping[str, JsonValue] = field(default_factory=dict)
    assigned: tuple[str, ...] = ()
    calls: tuple[Mapping[str, JsonValue], ...] = ()
    log: Sequence[Mapping[str, str]] = ()
    error: Mapping[str, JsonValue] | None = None
    verdict: Mapping[str, JsonValue] | None = None
    event: Mapping[str, JsonValue] | None = None

    def masked(self, mask: Callable[[str], str]) -> "ActionTested":
        """With `mask` over all that people will read."""
        texts = {
            name: masked_json(getattr(self, name), mask)
            for name in ("reason", "inputs", "result", "variables", "calls", "log", "error", "verdict")
        }
        return replace(self, **texts)

    def as_json(self) -> dict[str, JsonValue]:
        """As the API, the command line and tools show it."""
        shown: dict[str, Any] = {
            "action": {"id": self.action, "type": self.type, "name": self.name},
            "status": self.status,
            "nextActionId": self.following,
            "reason": self.reason,
            "inputs": self.inputs,
            "result": self.result,
            "variables": dict(self.variables),
            "variables_set": [*self.assigned],
            "calls": [*self.calls],
            "logs": [*self.log],
            "error": self.error,
            "verdict": self.verdict,
            "event": self.event,
        }
        return shown


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What a claimed run gives to the scope of its templates."""

    run_id: str
    project_id: str
    event: bytes | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A workflow in a project, and what a test run pretends. `workflow_id` is empty for one that is not stored."""

    compiled: CompiledWorkflow
    project_id: str
    workflow_id: str
    sample: Sample

    def place(self, action_id: str) -> str:
        """Where an action stands in the document."""
        actions = self.compiled.workflow.actions
        return join("actions", actions.index(self.compiled.workflow.action(action_id)))


class StepTester:
    """Tests single steps. What it is handed of the outside is never asked: steps are mocked by their own modules."""

    def __init__(self, steps: Mapping[str, MockedStep], reader: Reader, clock: Clock) -> None:
        self._steps = steps
        self._reader = reader
        self._clock = clock

    async def test(self, setting: Setting, action_id: str) -> ActionTested:
        """Test an action that is no trigger, as a run would act that comes to it."""
        playing = _Playing(setting)
        for before in _way_to(setting.compiled, action_id):
            await self._play_before(playing, before)
        playing.give(setting.sample.variables)
        return await self._play(playing, action_id)

    async def _play_before(self, playing: "_Playing", action_id: str) -> None:
        given = playing.setting.sample.steps
        if action_id in given:
            came: Succeeded | Failed | Ended = Succeeded(given[action_id], referred=True)
        else:
            came = (await self._mock(playing, action_id, StepLog(self._clock))).came
        playing.pass_by(action_id, came)

    async def _play(self, playing: "_Playing", action_id: str) -> ActionTested:
        lines = StepLog(self._clock)
        mocked = await self._mock(playing, action_id, lines)
        return playing.tested(action_id, mocked, lines)

    async def _mock(self, playing: "_Playing", action_id: str, lines: StepLog) -> Mocked:
        """What the step comes to. Whatever it raises is what it comes to, as in a run."""
        try:
            context = await self._context(playing, action_id, lines)
            step = self._steps.get(context.action.type)
            if step is None:
                return Mocked(Failed("step.unavailable", f"no step of type {context.action.type!r} is installed"))
            came = await step.mock(context)
            return await self._reader.read(came.decide) if isinstance(came, Looked) else came
        except DefinitionError as error:
            playing.fault_path = error.path
            return Mocked(replace(failure(error), message=error.faults[0].message))
        except LoopsError as error:
            return Mocked(failure(error))
        except Exception as error:
            log.exception("step raised in a test run")
            return Mocked(Failed("step.internal", f"internal error: {type(error).__name__}: {error}"))

    async def _context(self, playing: "_Playing", action_id: str, lines: StepLog) -> StepContext:
        program, scope = playing.program, playing.scope()
        playing.inputs, playing.fault_path = None, ""
        # Templates may take their time: a thread of their own keeps them off the event loop.
        inputs = await off_loop(lambda: program.render(action_id, scope))
        playing.inputs = inputs
        return StepContext(
            run_id=RUN_ID,
            action=program.action(action_id),
            now=self._clock.now(),
            render=lambda: inputs,
            log=lines.write,
            project_id=playing.setting.project_id,
            workflow_id=playing.setting.workflow_id,
            scope=scope,
            fields=program.fields(action_id),
        )


class _Playing:
    """A run that is played and nowhere kept: its state and the results of its steps so far."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.program = LoadedProgram(setting.compiled)
        self.state: RunState = begin(self.program)
        self.inputs: Mapping[str, JsonValue] | None = None
        self.fault_path = ""
        self._results: dict[str, JsonValue] = {}
        event = pack(event_json(setting.sample.event))
        self._base = self.program.scope(_Claimed(RUN_ID, setting.project_id, event))

    def scope(self) -> dict[str, JsonValue]:
        """What templates read."""
        return {
            **self._base,
            "variables": resolved(self.state.variables, self._results),
            "steps": dict(self._results),
            "payload": None if self.state.previous is None else self._results.get(self.state.previous),
        }

    def give(self, variables: Mapping[str, JsonValue]) -> None:
        """Variables in place of those that are there."""
        self.state = replace(self.state, variables={**self.state.variables, **variables})

    def pass_by(self, action_id: str, came: Succeeded | Failed | Ended) -> None:
        """Go on behind an action as if it had led here; one that failed has set nothing."""
        at = replace(self.state, position=action_id)
        kept = self._kept(at, came)
        after, _ = transition(self.program, at, kept)
        self.state = replace(after, previous=action_id)
        self._results[action_id] = kept.result if isinstance(kept, Succeeded) else None

    def _kept(self, at: RunState, came: Outcome) -> Outcome:
        return judged(self.program, at, storable_outcome(came))

    def tested(self, action_id: str, mocked: Mocked, lines: StepLog) -> ActionTested:
        """The action as it was played last, and what follows it."""
        at = replace(self.state, position=action_id)
        came = self._kept(at, mocked.came)
        self.state, effect = transition(self.program, at, came)
        action = self.program.action(action_id)
        result = came.result if isinstance(came, Succeeded) else came.partial if isinstance(came, Failed) else None
        self._results[action_id] = result
        return ActionTested(
            action=action_id,
            type=action.type,
            name=action.name,
            status="error" if isinstance(came, Failed) else "success",
            following=effect.action if isinstance(effect, Execute) else None,
            reason=came.message if isinstance(came, Failed) else effect.reason if isinstance(effect, Finish) else "",
            inputs=self.inputs,
            result=result,
            variables=resolved(self.state.variables, self._results),
            assigned=self._assigned(action_id, came),
            calls=mocked.calls,
            log=tuple(lines.lines),
            error=self._error(action_id, came) if isinstance(came, Failed) else None,
        )

    def _assigned(self, action_id: str, came: Outcome) -> tuple[str, ...]:
        outputs = self.program.node(action_id).outputs
        return tuple(assign({}, outputs, came.result, refer_to=action_id)) if isinstance(came, Succeeded) else ()

    def _error(self, action_id: str, failed: Failed) -> Mapping[str, JsonValue]:
        place = self.setting.place(action_id)
        path = join(place, "output_variable") if failed.code == "variables.too_large" else self.fault_path or place
        return {"code": failed.code, "message": failed.message, "path": path, "hint": failed.hint}


def _way_to(compiled: CompiledWorkflow, action_id: str) -> list[str]:
    """The actions between the trigger and this one on a shortest way, none where there is no way."""
    start = compiled.workflow.trigger.id
    came_from: dict[str, str] = {start: start}
    waiting = deque([start])
    while waiting and action_id not in came_from:
        here = waiting.popleft()
        for edge in compiled.workflow.edges:
            if edge.source == here and edge.target not in came_from:
                came_from[edge.target] = here
                waiting.append(edge.target)
    way: list[str] = []
    here = came_from.get(action_id, start)
    while here != start:
        way.append(here)
        here = came_from[here]
    return way[::-1]
