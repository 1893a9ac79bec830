"""Which runner a task is given to: the one that its model names, else the agent of this package.

claude-code:MODEL    codex:MODEL    command:NAME    command:NAME:MODEL
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from config.runner_settings import KINDS, RunnerSettings
from loops.agent.result import AgentResult
from loops.errors import ConfigError, Fault
from loops.tasks.runners.runner import Runner, Work

COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A runner by its name, and the model that it works with; empty for a command that needs none."""

    runner: str
    model: str

    @property
    def name(self) -> str:
        """The choice as it is written."""
        if self.runner in KINDS:
            return f"{self.runner}:{self.model}"
        return f"{COMMAND}:{self.runner}" + (f":{self.model}" if self.model else "")


def chosen(choice: str, default: str | None) -> Chosen | None:
    """The runner that a step's `choice` means where the installation's model is `default`; None for our own agent.

    A model alone is one of the default's runner.
    """
    named = _named(choice or default or "")
    if named is not None or not choice or ":" in choice:
        return named
    usual = _named(default or "")
    if choice in {*KINDS, COMMAND}:
        raise ConfigError([Fault("model", f"{choice!r} names a runner alone", f"write {choice}:<name>")])
    return None if usual is None else Chosen(usual.runner, choice)


def _named(text: str) -> Chosen | None:
    first, colon, rest = text.partition(":")
    if not colon:
        return None
    if first in KINDS:
        return Chosen(first, rest)
    if first == COMMAND:
        name, _, model = rest.partition(":")
        return Chosen(name, model)
    return None


@dataclass(frozen=True, slots=True)
class Runners:
    """The runners of an installation whose model is `default`. `make` makes the one that runs a command."""

    default: str | None
    configured: Mapping[str, RunnerSettings]
    make: Callable[[RunnerSettings, Chosen], Runner]

    def find(self, choice: str) -> Runner | None:
        """The runner for a step's choice; None for our own agent. Raises ConfigError where it is not set up."""
        one = chosen(choice, self.default)
        return None if one is None else self.make(self._settings(one), one)

    def check(self, choice: str) -> None:
        """Raises ConfigError where a step's choice names a runner that is not set up."""
        one = chosen(choice, self.default)
        if one is not None:
            self._settings(one)

    def _settings(self, one: Chosen) -> RunnerSettings:
        if one.runner in KINDS and not one.model:
            raise ConfigError([Fault("model", f"{one.name!r} names no model", f"write {one.runner}:<name>")])
        settings = self.configured.get(one.runner)
        if settings is None:
            known = ", ".join(sorted(self.configured)) or "none"
            hint = f"the operator sets it up as [runners.{one.runner or 'NAME'}] in loops.toml; there are: {known}"
            raise ConfigError([Fault("model", f"there is no runner {one.runner!r} in this installation", hint)])
        return settings


@dataclass(frozen=True, slots=True)
class ByModel:
    """Gives each task to the runner that its model names."""

    own: Runner
    runners: Runners

    async def run(self, work: Work) -> AgentResult:
        """See Runner."""
        return await (self.runners.find(work.job.task.model) or self.own).run(work)
