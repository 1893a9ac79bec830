"""An agent over doubles: a scripted model, a clock that a test moves, and tools that note what they are asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from loops.agent.asking import Patience
from loops.agent.guards import Limits
from loops.agent.interruption import Abort
from loops.agent.journal import Journal, MemoryJournal
from loops.agent.loop import Agent
from loops.agent.model import Model, ModelError, ToolSpec
from loops.agent.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedTurn
from loops.agent.result import AgentResult
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.finalize import FieldType
from loops.agent.tools.tool import CallContext, Effect, Tool
from loops.agent.transcript import Transcript
from loops.event import JsonValue

START = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
TASK = "task-1"


class StepClock:
    """Moves by `step` seconds whenever it is asked."""

    def __init__(self, step: float = 0.0) -> None:
        self.time = START
        self.step = step

    def now(self) -> datetime:
        self.time += timedelta(seconds=self.step)
        return self.time

    def forward(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class NotingTool:
    """Answers by a function and notes its calls."""

    name: str
    answer: Callable[[Mapping[str, Any]], JsonValue] = lambda _arguments: "fine"
    effect: Effect = "read"
    pause: float = 0.0
    keys: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    cancelled: bool = False

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "for tests", {"type": "object", "properties": {}})

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        self.keys.append(context.key)
        self.order.append(f"{self.name} begins")
        try:
            await asyncio.sleep(self.pause)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.order.append(f"{self.name} ends")
        return self.answer(arguments)


def says(text: str = "", *calls: ScriptedCall, **more: Any) -> ScriptedTurn:
    return ScriptedTurn(text, calls, **more)


def call(name: str, arguments: Mapping[str, Any] | str | None = None) -> ScriptedCall:
    return ScriptedCall(name, {} if arguments is None else arguments)


def ends(message: str = "All done.", fails: Sequence[ModelError] = (), **more: Any) -> ScriptedTurn:
    return says("", call("finalize", {"final_message": message, **more}), fails=tuple(fails))


async def no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


def agent(
    model: Model | Script,
    tools: Sequence[Tool] = (),
    *,
    fields: Mapping[str, FieldType] | None = None,
    resources: Resources | None = None,
    journal: Journal | None = None,
    **more: Any,
) -> Agent:
    given: dict[str, Any] = {
        "clock": StepClock(),
        "limits": Limits(),
        "patience": Patience(sleep=no_wait, jitter=lambda: 1.0),
        **more,
    }
    return Agent(
        task_id=TASK,
        model=ScriptedModel(model) if isinstance(model, Sequence) else model,
        toolbox=toolbox(resources or Resources(), fields=fields, more=tools),
        journal=journal or MemoryJournal(),
        **given,
    )


async def run(one: Agent, transcript: Transcript | None = None, abort: Abort | None = None) -> AgentResult:
    return await one.run(transcript or Transcript("You work.", "Do it."), abort or Abort())
