"""A started program until nothing of it is left: its output, its clocks, and its end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from loops.tasks.workspace.output import Kept, Lines
from loops.tasks.workspace.sandbox import Command, OnLine, Ran, Stopped

_PIECE = 64 << 10
_SETTLE = 1.0
"""Seconds for what is left to be read or written once nobody is there any more."""
FLOOD = 256
"""A command that has written so many times what is kept of an output is ended: nobody will ever read it."""
_SIGNALS = frozenset(
    int(one)
    for one in (
        *(signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV),
        *(signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS),
    )
)
T = TypeVar("T")


class Tree(Protocol):
    """All processes of one command."""

    async def end(self) -> None:
        """Kill every one of them, and return when none is left. Raises SandboxError where one outlives that."""

    def killed_for_memory(self) -> bool:
        """Whether one of them was ended since they used too much memory."""


class Supervised:
    """One command that runs now."""

    def __init__(
        self, process: asyncio.subprocess.Process, tree: Tree, command: Command, most: int, on_line: OnLine | None
    ) -> None:
        self._process = process
        self._tree = tree
        self._command = command
        self._on_line = on_line
        self._stdout, self._stderr = Kept(most), Kept(most)
        self._most = most * FLOOD
        self._clock = asyncio.get_running_loop().time
        self._began = self._heard = self._clock()
        self._stopped: asyncio.Future[Stopped] = asyncio.get_running_loop().create_future()

    def stop(self, reason: Stopped) -> None:
        """End the command; what it has written so far is its result."""
        if not self._stopped.done():
            self._stopped.set_result(reason)

    async def run(self) -> Ran:
        """What became of it. However this is left, also by a cancel, every process is gone."""
        process = self._process
        reading = [
            asyncio.create_task(self._read_lines(cast("asyncio.StreamReader", process.stdout))),
            asyncio.create_task(self._read(cast("asyncio.StreamReader", process.stderr), self._stderr)),
        ]
        writing = asyncio.create_task(self._feed(cast("asyncio.StreamWriter", process.stdin)))
        try:
            stopped = await self._watch([asyncio.create_task(process.wait()), *reading])
            await insist(self._tree.end())
            # Nobody holds the other end now, so there is an end to read to, unless whoever is told takes for ever.
            with contextlib.suppress(TimeoutError):
                left = _SETTLE if stopped else max(self._left()[0], _SETTLE)
                async with asyncio.timeout(left):
                    await asyncio.gather(*reading)
        finally:
            await insist(self._wind_up([*reading, writing]))
        return self._came(process.returncode or 0, stopped)

    async def _wind_up(self, tasks: "list[asyncio.Task[Any]]") -> None:
        await self._tree.end()
        # What is written to a program that is gone ends by itself, and its error is not left for nobody.
        await asyncio.wait(tasks[-1:], timeout=_SETTLE)
        await _dropped(tasks)
        await self._process.wait()

    def _came(self, code: int, stopped: Stopped) -> Ran:
        if not stopped and self._tree.killed_for_memory():
            stopped = "memory"
        lost = self._stdout.lost + self._stderr.lost
        took = self._clock() - self._began
        return Ran(as_subprocess(code), self._stdout.content, self._stderr.content, stopped, lost, took)

    async def _watch(self, tasks: "list[asyncio.Task[Any]]") -> Stopped:
        """Wait until the program has ended by itself (nothing), or why it has to end."""
        ended = tasks[0]
        waiting: set[asyncio.Future[Any]] = {*tasks, self._stopped}
        try:
            while not ended.done():
                left, reason = self._left()
                if left <= 0:
                    return reason
                await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if self._stopped.done():
                    return self._stopped.result()
                for one in [one for one in waiting if one.done()]:
                    waiting.discard(one)
                    one.result()  # what `on_line` raised is for the caller
            return ""
        finally:
            await insist(_dropped([ended])) if not ended.done() else None

    def _left(self) -> tuple[float, Stopped]:
        """Seconds until the command has to end, and why."""
        now = self._clock()
        left = self._began + self._command.seconds - now
        if self._command.idle is None:
            return left, "timeout"
        quiet = self._heard + self._command.idle - now
        return (quiet, "idle") if quiet < left else (left, "timeout")

    async def _read(self, stream: asyncio.StreamReader, kept: Kept) -> None:
        while piece := await stream.read(_PIECE):
            self._take(piece, kept)

    async def _read_lines(self, stream: asyncio.StreamReader) -> None:
        lines = Lines()
        while piece := await stream.read(_PIECE):
            self._take(piece, self._stdout)
            for line in lines.add(piece) if self._on_line else ():
                await self._tell(line)
        for line in lines.end():
            await self._tell(line)

    async def _tell(self, line: bytes) -> None:
        if self._on_line is not None:
            await self._on_line(line)
            self._heard = self._clock()

    def _take(self, piece: bytes, kept: Kept) -> None:
        kept.add(piece)
        if b"\n" in piece:
            self._heard = self._clock()
        if self._stdout.seen + self._stderr.seen > self._most:
            self.stop("output")

    async def _feed(self, stream: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):  # a program need not read
            if self._command.stdin and not stream.is_closing():  # it may have ended before this began
                stream.write(self._command.stdin)
                await stream.drain()
            stream.close()
            await stream.wait_closed()


@dataclass(slots=True)
class Running:
    """What runs in one sandbox now, so that leaving it ends all of it."""

    commands: set[Supervised] = field(default_factory=set)
    _none_left: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, supervised: Supervised) -> Ran:
        """Run one, and know of it meanwhile."""
        self.commands.add(supervised)
        self._none_left.clear()
        try:
            return await supervised.run()
        finally:
            self.commands.discard(supervised)
            if not self.commands:
                self._none_left.set()

    async def end(self) -> None:
        """Stop all of them, and wait until they are gone."""
        for one in self.commands:
            one.stop("cancelled")
        if self.commands:
            await self._none_left.wait()


async def insist(work: Awaitable[T]) -> T:
    """Do something to its end, also when the caller is cancelled meanwhile; then raise that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def spawned(*argv: str, **given: Any) -> asyncio.subprocess.Process:  # noqa: ANN401 - as of asyncio
    """Start a program in a process group of its own; where the caller is cancelled meanwhile its whole group is killed,
    of which asyncio would kill the first alone. Raises OSError."""
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **given))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(asyncio.CancelledError):
            await insist(asyncio.wait([starting]))
        if starting.exception() is None:
            kill_group(starting.result().pid)
            with contextlib.suppress(asyncio.CancelledError):
                await insist(starting.result().communicate())
        raise


async def _dropped(tasks: "list[asyncio.Task[Any]]") -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def as_subprocess(code: int) -> int:
    """An exit code as subprocess has it: a shell and bubblewrap say 128 and the number where a signal was the end. Only
    signals that end a program by force are read so, since programs also use such numbers as they like."""
    return 128 - code if code - 128 in _SIGNALS else code


def kill_group(pid: int) -> None:
    """Kill a process group, where there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
