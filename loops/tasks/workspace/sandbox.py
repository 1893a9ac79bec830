"""What executes the commands of a task, as a port: where they see nothing but their checkout."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

HOME = "/workspace"
"""Where a command finds its checkout."""

Stopped = Literal["", "timeout", "idle", "memory", "output", "cancelled"]
"""Why a command was ended by us; empty where it ended by itself."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What all that runs in one sandbox may use together: memory and a file in bytes, processes, CPUs at once. `output`
    is how much of stdout and of stderr is kept of one command, in bytes."""

    memory: int = 1 << 30
    processes: int = 256
    cpus: float = 1.0
    file: int = 200 << 20
    output: int = 256 << 10


@dataclass(frozen=True, slots=True)
class Room:
    """What a sandbox is made of.

    `checkout` is writable and stands at HOME. `readable` are further files and folders of this machine, by where they
    stand inside. `ports` lead from a TCP port on the loopback inside to a unix socket of this machine. `hosts` are the
    `host:port` that may be reached through the egress proxy; none means no network at all.
    """

    checkout: Path
    readable: Mapping[str, Path] = field(default_factory=dict)
    ports: Mapping[int, Path] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    limits: SandboxLimits = SandboxLimits()


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed: the program and its arguments, in `folder` below HOME, with no more environment than
    `environment`. It has `seconds`, and with `idle` at most so many seconds without a line of output."""

    argv: Sequence[str]
    folder: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    seconds: float = 60.0
    idle: float | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command. `code` is its exit code, negative for a signal as in subprocess. Of an output larger
    than the limit the head and the tail are kept, `lost` bytes between them are not."""

    code: int
    stdout: bytes
    stderr: bytes
    stopped: Stopped = ""
    lost: int = 0
    seconds: float = 0.0


OnLine = Callable[[bytes], Awaitable[None]]


class Sandbox(Protocol):
    """One open sandbox. When it is left, or its caller is cancelled, every process in it is gone."""

    @property
    def room(self) -> Room:
        """What it is made of; another one may be made of the same."""

    async def run(self, command: Command, on_line: OnLine | None = None) -> Ran:
        """Execute a command to its end; `on_line` is told each whole line of stdout as it comes, and what it is told
        is kept in `Ran.stdout` too. Raises SandboxError where nothing could be started."""


class Sandboxes(Protocol):
    """Makes sandboxes."""

    @property
    def tier(self) -> str:
        """`bwrap`, or `none` where the operator wants no sandbox."""

    def own(self, path: Path) -> None:
        """Give a file, or a folder with all in it, to the user whom commands run as: only what is theirs can be a
        checkout. It walks the folder, so call it on a thread. Raises OSError."""

    def open(self, room: Room) -> AbstractAsyncContextManager[Sandbox]:
        """A sandbox around a checkout. Raises SandboxError, with what mends it, where this machine has none."""
