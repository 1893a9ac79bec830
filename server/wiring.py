"""What a service is made of, where that may differ.

`Wiring` is how a test puts something between the parts; the product always uses its defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from loops.agent.models.choice import Models
from loops.agent.tools.tool import Tool
from loops.clock import SystemClock
from loops.ports import Clock, Engine, Writer
from loops.runs.step import Step
from loops.tasks.outputs.writing import WritingRules
from loops.tasks.workspace.sandbox import Sandboxes
from notify.message import Notifiers
from triggers.registry import SOURCES
from triggers.slack.patience import Timing
from triggers.source import Source

Role = Literal["all", "web", "worker", "scheduler"]


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the parts are made of; a test wraps ports here to see or to break what passes through them."""

    writer: Callable[[Writer], Writer] = field(default=lambda writer: writer)
    engine: Callable[[Engine], Engine] = field(default=lambda engine: engine)
    clock: Clock = field(default_factory=SystemClock)
    steps: Callable[[Mapping[str, Step]], Mapping[str, Step]] = field(default=lambda steps: steps)
    models: Callable[[Models], Models] = field(default=lambda models: models)
    notifiers: Callable[[Notifiers], Notifiers] = field(default=lambda notifiers: notifiers)
    tools: tuple[Tool, ...] = ()
    sandboxes: Sandboxes | None = None
    writing: WritingRules = field(default_factory=WritingRules)
    sources: Mapping[str, Source] = field(default_factory=lambda: SOURCES)
    dispatching: bool = True
    slack: Timing = field(default_factory=Timing)
    routes: tuple[web.AbstractRouteDef, ...] = ()
