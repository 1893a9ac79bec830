"""The runners of a service: coding agents that the operator set up, started as commands."""

from collections.abc import Mapping
from pathlib import Path

from config.runner_settings import RunnerSettings
from config.settings import Settings
from loops.agent.models.runners import Chosen
from loops.ports import Clock
from loops.tasks.runners.choice import Commands, External, Named, dialect_of
from loops.tasks.runners.external import ExternalRunner, Surroundings
from loops.tasks.runners.runner import Runner, Work
from loops.tasks.workspace.sandbox import Room, Sandboxes

RUNNERS = "runners"
"""Where in the work folder the commands of tasks have folders of their own."""


def by_name(settings: Settings) -> Mapping[str, RunnerSettings]:
    """The runners that are set up."""
    return {runner.name: runner for runner in settings.runners}


def commands(folder: Path, sandboxes: Sandboxes, clock: Clock) -> Commands:
    """What makes the runners that start a command, in sandboxes, with their own folders in `folder`."""

    def named_by(named: Named) -> External:
        around = Surroundings(sandboxes, folder, clock, named, room_of)

        def make(chosen: Chosen, settings: RunnerSettings) -> Runner:
            return ExternalRunner(settings, dialect_of(settings), chosen, around)

        return make

    return named_by


def room_of(work: Work) -> Room | None:
    """What a task works in on code: the room of its workspace."""
    workspace = work.resources.workspace
    return None if workspace is None else workspace.sandbox.room
