"""Models that are no models but coding agents, started as commands: how a step or the installation names one.

claude-code:MODEL    codex:MODEL    command:NAME    command:NAME:MODEL
"""

from collections.abc import Mapping
from dataclasses import dataclass

from config.runner_settings import KINDS, RunnerSettings
from loops.errors import ConfigError, Fault

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
    """The runner that a step's `choice` means where the installation's model is `default`; None for a model.

    A name alone is a model of the default's runner.
    """
    named = _named(choice or default or "")
    if named is not None or not choice or ":" in choice:
        return named
    usual = _named(default or "")
    return None if usual is None else Chosen(usual.runner, choice)


def _named(text: str) -> Chosen | None:
    first, _, rest = text.partition(":")
    if first in KINDS:
        return Chosen(first, rest)
    if first == COMMAND:
        name, _, model = rest.partition(":")
        return Chosen(name, model)
    return None


def settings_of(one: Chosen, configured: Mapping[str, RunnerSettings]) -> RunnerSettings:
    """How it is set up. Raises ConfigError where it is not, or where it needs a model and is given none."""
    if one.runner in KINDS and not one.model:
        raise ConfigError([Fault("model", f"{one.runner} is given no model", f"write {one.runner}:<name>")])
    settings = configured.get(one.runner)
    if settings is None:
        known = ", ".join(Chosen(name, "<name>" if name in KINDS else "").name for name in sorted(configured)) or "none"
        hint = f"the operator sets it up as [runners.{one.runner or 'NAME'}] in loops.toml; set up are: {known}"
        raise ConfigError([Fault("model", f"there is no runner {one.runner!r} in this installation", hint)])
    return settings
