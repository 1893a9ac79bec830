"""Gives each task to the runner that its model names, else to the agent of this package."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from config.runner_settings import RunnerSettings
from loops.agent.models.choice import Models
from loops.agent.models.runners import Chosen
from loops.agent.result import AgentResult
from loops.errors import ConfigError, Fault
from loops.tasks.equipment import Job
from loops.tasks.runners.claude_code import ClaudeCode
from loops.tasks.runners.codex import Codex
from loops.tasks.runners.command import CommandLine
from loops.tasks.runners.runner import Runner, Work
from loops.tasks.runners.told import Dialect

DIALECTS: dict[str, Dialect] = {
    "claude-code": ClaudeCode(),
    "codex": Codex(),
}
"""One line a kind of command that Loops knows by name."""


External: TypeAlias = Callable[[Chosen, RunnerSettings], Runner]
"""Makes the runner that starts a command."""
Named: TypeAlias = Callable[[Job, str], Awaitable[None]]
"""Is told the name of the model that a task works with."""
Commands: TypeAlias = Callable[[Named], External]


def dialect_of(settings: RunnerSettings) -> Dialect:
    """How a configured runner is started and understood."""
    return DIALECTS.get(settings.name) or CommandLine(settings.api)


@dataclass(frozen=True, slots=True)
class ByModel:
    """See Runner. Without `external` nothing can start a command."""

    own: Runner
    models: Models
    external: External | None

    async def run(self, work: Work) -> AgentResult:
        """See Runner. Raises ConfigError where the task names a runner that is not set up."""
        found = self.models.runner_of(work.job.task.model)
        if found is None:
            return await self.own.run(work)
        if self.external is None:
            name, hint = found[0].name, "this process has no sandbox to start one in"
            raise ConfigError([Fault("model", f"{name} is a command, and none can be started", hint)])
        return await self.external(*found).run(work)
