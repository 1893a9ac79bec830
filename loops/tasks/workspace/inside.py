"""TCP ports on the loopback of a sandbox that this process answers."""

import asyncio
import contextlib
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from loops.errors import SandboxError
from loops.tasks.workspace.account import Account

log = logging.getLogger("loops.tasks.sandbox")

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_SCRIPT = Path(__file__).with_name("enter.py")
_PIECE = 64 << 10
MOST_CONNECTIONS = 64
"""Of one command at once: each takes descriptors of the service."""


@asynccontextmanager
async def answering(pid: int, account: Account, ports: Mapping[int, Answer]) -> AsyncIterator[None]:
    """Answer what connects to these ports in the network of a process, until this is left. Raises SandboxError."""
    if not ports:
        yield
        return
    async with answered(await _sockets(pid, account, list(ports)), list(ports.values())):
        yield


@asynccontextmanager
async def answered(sockets: Sequence[socket.socket], answers: Sequence[Answer]) -> AsyncIterator[None]:
    """Answer what connects to each of these sockets, and close them in the end."""
    connected: set[asyncio.Task[None]] = set()
    async with AsyncExitStack() as stack:
        for one in sockets:
            stack.callback(one.close)
        for answer, one in zip(answers, sockets, strict=True):
            server = await asyncio.start_server(_noted(answer, connected), sock=one)
            stack.callback(server.close)
        try:
            yield
        finally:
            for task in connected:
                task.cancel()
            await asyncio.gather(*connected, return_exceptions=True)


def _noted(answer: Answer, connected: "set[asyncio.Task[None]]") -> Answer:
    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has one
        if len(connected) >= MOST_CONNECTIONS:
            log.warning("a sandbox has too many connections, and one more is closed")
            writer.close()
            return
        connected.add(task)
        try:
            with contextlib.suppress(OSError):
                await answer(reader, writer)
        except asyncio.CancelledError:
            pass  # the sandbox is closed; nobody waits for more
        finally:
            writer.close()
            connected.discard(task)

    return run


async def _sockets(pid: int, account: Account, ports: Sequence[int]) -> list[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asked = {"pid": pid, "ports": list(ports), "socket": theirs.fileno(), "uid": None, "gid": None}
        if not account.is_own:
            asked |= {"uid": account.uid, "gid": account.gid}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(asked)),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={},
            cwd="/",
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise SandboxError(
                f"the network of the sandbox cannot be entered: {said.decode(errors='replace').strip()[-300:]}",
                hint="docs/guides/sandbox.md lists what a container has to allow",
            )
        _, descriptors, _, _ = socket.recv_fds(ours, 16, len(ports))
        return [socket.socket(fileno=one) for one in descriptors]


def to_socket(path: Path) -> Answer:
    """Answers by what a unix socket of this machine says."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(str(path))
        try:
            await join(reader, writer, there_reader, there_writer)
        finally:
            there_writer.close()

    return answer


async def join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there_reader: asyncio.StreamReader,
    there_writer: asyncio.StreamWriter,
) -> None:
    """Carry everything both ways until both have ended. Raises OSError."""
    there = asyncio.create_task(_carry(reader, there_writer))
    try:
        await _carry(there_reader, writer)
        await there
    finally:
        there.cancel()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
