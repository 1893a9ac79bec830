"""Messages of the Model Context Protocol over the pipes of a command, which is gone when this is left.

Its own instead of the library's, whose end takes four seconds of a command that does not listen, and which reads a line
of any length.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

GRACE_SECONDS = 1.0
"""For how long a command may end by itself once its input is closed, and again once it was asked to."""
_LOOK_SECONDS = 0.01


@asynccontextmanager
async def piped(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, most: int
) -> "AsyncIterator[tuple[MemoryObjectReceiveStream[Any], MemoryObjectSendStream[Any]]]":
    """Start the command in a session of its own and give what a client reads and writes. A line may have `most` bytes.
    Raises OSError where it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
        limit=most,
    )
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    pumps = [asyncio.create_task(_read(process, arrived)), asyncio.create_task(_write(process, leaving, arrived))]
    try:
        yield incoming, outgoing
    finally:
        try:
            await _end(process)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for stream in (arrived, incoming, outgoing, leaving):
                stream.close()


async def _read(
    process: asyncio.subprocess.Process, arrived: "MemoryObjectSendStream[SessionMessage | Exception]"
) -> None:
    """Hand on each line. What is no message is told as an error; what has no end of line in time ends the session."""
    source = process.stdout
    if source is None:
        return
    with arrived, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ValueError):
        async for line in source:
            await arrived.send(_message(line))


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    process: asyncio.subprocess.Process,
    leaving: "MemoryObjectReceiveStream[SessionMessage]",
    arrived: "MemoryObjectSendStream[SessionMessage | Exception]",
) -> None:
    """Write each message. Where the command no longer reads, whoever waits for its answer is told."""
    target = process.stdin
    if target is None:
        return
    try:
        async for one in leaving:
            if target.is_closing():  # which a write is told of by another error from each event loop
                break
            target.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await target.drain()
    except OSError:
        pass
    else:
        if not target.is_closing():
            return
    arrived.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, ask it to end, and end it: with every process of its session."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _gone(process):
        _signal(process, signal.SIGTERM)
        await _gone(process)
    _signal(process, signal.SIGKILL)  # what it started may have stayed
    await _gone(process)
    # A process that left the session may hold the pipes: they are ours to close, and nothing public does.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


async def _gone(process: asyncio.subprocess.Process) -> bool:
    """Whether it ends in time. Not by `wait`, which waits for the ends of its pipes too."""
    until = asyncio.get_running_loop().time() + GRACE_SECONDS
    while process.returncode is None:
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
