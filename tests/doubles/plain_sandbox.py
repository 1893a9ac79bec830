"""A sandbox without walls: commands run on this machine, in the checkout, as the tests' own user."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from loops.tasks.workspace.sandbox import Command, OnLine, Ran, Room


class PlainSandbox:
    """Runs commands in a folder."""

    def __init__(self, room: Room) -> None:
        self.room = room

    async def run(self, command: Command, on_line: OnLine | None = None) -> Ran:
        with tempfile.TemporaryFile() as given:
            given.write(command.stdin)
            given.seek(0)
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                cwd=self.room.checkout / command.folder,
                env={"PATH": "/usr/bin:/bin", **command.environment},
                stdin=given.fileno(),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        out, err = await process.communicate()
        for line in out.splitlines(keepends=True) if on_line is not None else ():
            await on_line(line)  # type: ignore[misc]
        most = self.room.limits.output
        return Ran(process.returncode or 0, out[:most], err[:most], lost=max(0, len(out) - most))


class PlainSandboxes:
    """Makes them, and remembers for what."""

    tier = "none"

    def __init__(self) -> None:
        self.rooms: list[Room] = []

    def own(self, path: Path) -> None:
        """It is ours."""

    @asynccontextmanager
    async def open(self, room: Room) -> AsyncIterator[PlainSandbox]:
        self.rooms.append(room)
        yield PlainSandbox(room)


def in_folder(folder: Path) -> PlainSandbox:
    """One around a folder."""
    return PlainSandbox(Room(folder))
