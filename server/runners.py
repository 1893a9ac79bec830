"""The runners of a service: coding agents that the operator set up, started as commands."""

from collections.abc import Callable, Mapping
from pathlib import Path

from config.runner_settings import RunnerSettings
from config.settings import Settings
from loops.agent.models.runners import Chosen
from loops.ports import Clock
from loops.tasks.runners.choice import Commands, External, Named, dialect_of
from loops.tasks.runners.external import ExternalRunner, Surroundings
from loops.tasks.runners.runner import Runner, Work
from loops.tasks.workspace.sandbox import Room, Sandboxes


def by_name(settings: Settings) -> Mapping[str, RunnerSettings]:
    """The runners that are set up."""
    return {runner.name: runner for runner in settings.runners}


def commands(
    folder: Path, sandboxes: Sandboxes, clock: Clock, room_of: Callable[[Work], Room | None] | None = None
) -> Commands:
    """What makes the runners that start a command, in sandboxes, with their own folders in `folder`. `room_of` has the
    room of a task that works on code."""

    def named_by(named: Named) -> External:
        around = Surroundings(sandboxes, folder, clock, named, room_of or _no_room)

        def make(chosen: Chosen, settings: RunnerSettings) -> Runner:
            return ExternalRunner(settings, dialect_of(settings), chosen, around)

        return make

    return named_by


def _no_room(_work: Work) -> Room | None:
    return None
