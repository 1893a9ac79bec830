"""Stopping what a run waits for: one line a kind of wait behind which something acts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from loops.ports import Messages
from loops.runs.settling import Stop
from loops.runs.state import Wait
from loops.tasks.service import TaskService

if TYPE_CHECKING:
    from sqlalchemy import Connection


def stops(tasks: TaskService, messages: Messages) -> Stop:
    """The Stop of a cancelled run: True when nothing acts for it any more, False when that wakes the run itself."""
    kinds: Mapping[str, Callable[[Connection, Wait], bool]] = {
        "task": lambda connection, wait: tasks.stop(connection, str(wait.detail["task"])),
        "message": lambda connection, wait: messages.withdraw(connection, str(wait.detail["message"])),
    }

    def stop(connection: "Connection", wait: Wait) -> bool:
        acts = kinds.get(wait.kind)
        return acts is None or acts(connection, wait)

    return stop
