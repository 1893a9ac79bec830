"""No sandbox: commands see what the service sees. Only where an operator has asked for it."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loops.errors import SandboxError
from loops.tasks.workspace.account import Account, own_account
from loops.tasks.workspace.enclosure import ENVIRONMENT
from loops.tasks.workspace.inside import answered, to_socket
from loops.tasks.workspace.limiting import launcher, script
from loops.tasks.workspace.sandbox import Command, OnLine, Ran, Room, Sandbox
from loops.tasks.workspace.supervision import Running, Supervised, insist, kill_group

WARNING = "LOOPS_SANDBOX is none: commands of tasks can read and change all that this service can"


@dataclass(frozen=True, slots=True)
class Plain:
    """Runs commands as processes of this machine, each in a process group of its own, with the network and the files
    of this machine. Those that leave their group are found by their session only where they stay in that."""

    account: Account = field(default_factory=own_account)
    tier: str = "none"

    def own(self, path: Path) -> None:
        """See Sandboxes."""
        self.account.own(path)

    @asynccontextmanager
    async def open(self, room: Room) -> AsyncIterator[Sandbox]:
        """See Sandboxes. The ports of the room are taken on the loopback of this machine."""
        opened = _PlainRoom(self.account, room)
        async with answered(_listening(room.ports), [to_socket(path) for path in room.ports.values()]):
            try:
                yield opened
            finally:
                await insist(opened.running.end())


@dataclass(frozen=True, slots=True)
class _PlainRoom:
    account: Account
    room: Room
    running: Running = field(default_factory=Running)

    async def run(self, command: Command, on_line: OnLine | None = None) -> Ran:
        """See Sandbox."""
        home = str(self.room.checkout)
        try:
            process = await asyncio.create_subprocess_exec(
                *launcher(self.account, self.room.limits, command, None),
                *script(command, home),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={**ENVIRONMENT, "HOME": home, **command.environment},
                cwd="/",
            )
        except OSError as error:
            raise SandboxError(f"{sys.executable} cannot be started: {error}") from error
        return await self.running.run(
            Supervised(process, _Session(process.pid), command, self.room.limits.output, on_line)
        )


class _Session:
    """The processes that did not leave the session of a command."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    async def end(self) -> None:
        """See Tree."""
        kill_group(self._pid)
        for pid in _members(self._pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def killed_for_memory(self) -> bool:
        """See Tree."""
        return False


def _listening(ports: Iterable[int]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        sockets.extend(socket.create_server(("127.0.0.1", port)) for port in ports)
    except OSError as error:
        for one in sockets:
            one.close()
        raise SandboxError(f"a port of the sandbox is taken: {error}", hint="try again") from error
    return sockets


def _members(session: int) -> list[int]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((place / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    found.append(int(place.name))
    return found
