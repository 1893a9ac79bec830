"""What an agent works on: a checkout, and the sandbox around whatever is executed in it."""

from dataclasses import dataclass
from pathlib import Path

from loops.tasks.workspace.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Workspace:
    """An open workspace. An agent gets no tool that changes it unless it is `writable`."""

    sandbox: Sandbox
    checkout: Path
    writable: bool = True
