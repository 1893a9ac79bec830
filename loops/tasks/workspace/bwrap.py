"""Sandboxes of bubblewrap: a command sees the system read-only, its checkout, and nothing else of this machine.

Each command has namespaces of its own. When its first process ends, or is killed, the kernel ends every other one, also
those that left its session or ignore signals, so that nothing outlives a command. What all commands of a sandbox use
together is limited by control groups, or else by limits on each process.
"""

import asyncio
import contextlib
import json
import logging
import os
import platform
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loops.errors import SandboxError
from loops.tasks.workspace.account import Account
from loops.tasks.workspace.calls import call_filter
from loops.tasks.workspace.cgroups import Cgroups, Group
from loops.tasks.workspace.enclosure import Machine, arguments
from loops.tasks.workspace.faults import explained
from loops.tasks.workspace.inside import Answer, answering, to_socket
from loops.tasks.workspace.limiting import launcher, script
from loops.tasks.workspace.sandbox import HOME, Command, OnLine, Ran, Room, Sandbox
from loops.tasks.workspace.supervision import Running, Supervised, insist, kill_group, spawned

log = logging.getLogger("loops.tasks.sandbox")

Egress = Callable[[Sequence[str]], Answer]
"""Makes what answers the egress proxy of a sandbox that may reach these `host:port`."""

EGRESS_PORT = 3128
START_SECONDS = 30.0
GONE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Bwrap:
    """Makes sandboxes by the program at `program`, whose commands run as `account`."""

    program: Path
    account: Account
    machine: Machine
    egress: Egress
    cgroups: Cgroups | None = None
    calls: bytes = call_filter(platform.machine()) or b""
    tier: str = "bwrap"

    def own(self, path: Path) -> None:
        """See Sandboxes."""
        self.account.own(path)

    @asynccontextmanager
    async def open(self, room: Room) -> AsyncIterator[Sandbox]:
        """See Sandboxes."""
        try:
            group = None if self.cgroups is None else self.cgroups.make(room.limits)
        except OSError as error:
            raise SandboxError(f"no control group could be made: {error}", hint=_GROUPS) from error
        opened = _BwrapSandbox(self, room, group)
        try:
            yield opened
        finally:
            await insist(opened.close())


_GROUPS = "the service must be able to write where its control groups are; docs/guides/sandbox.md says how"


@dataclass(frozen=True, slots=True)
class _BwrapSandbox:
    made_by: Bwrap
    room: Room
    group: Group | None
    running: Running = field(default_factory=Running)

    async def run(self, command: Command, on_line: OnLine | None = None) -> Ran:
        """See Sandbox."""
        async with AsyncExitStack() as stack:
            started = await self._start(command, on_line, stack)
            ran = await self.running.run(started.supervised)
            if not ran.stopped and started.never_began:
                raise explained(ran.stderr.decode(errors="replace"), self.room.checkout)
            return ran

    @property
    def _processes(self) -> int | None:
        """How many processes each command may have, where no control group holds those of all."""
        counted = self.group is not None and "pids" in self.group.folders
        return None if counted else self.room.limits.processes

    async def close(self) -> None:
        await self.running.end()
        if self.group is not None:
            await self._emptied(self.group)
            self.group.remove()

    async def _emptied(self, group: Group) -> None:
        """End what is left of a command that was cancelled while it started, and has not begun."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GONE_SECONDS
        while (left := group.members()) and loop.time() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.005)

    async def _start(self, command: Command, on_line: OnLine | None, stack: AsyncExitStack) -> "_Started":
        """A command that runs. What has to be closed after it is left to `stack`."""
        told, tell = os.pipe()
        wait, begin = os.pipe()
        stack.callback(os.close, wait)
        stack.callback(os.close, begin)
        options, calls = os.memfd_create("bwrap"), os.memfd_create("calls")
        killed = 0 if self.group is None else self.group.killed_for_memory
        try:
            _fill(calls, self.made_by.calls)
            _fill(options, _joined(self._options(command, tell, wait, calls)))
            process = await spawned(
                *launcher(self.made_by.account, self.room.limits, command, self.group),
                *(str(self.made_by.program), "--args", str(options), "--"),
                *script(command, HOME, self._processes),
                pass_fds=(tell, wait, options, calls),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={},
                cwd="/",
            )
        except BaseException as error:
            os.close(told)
            if isinstance(error, OSError):
                raise SandboxError(f"{sys.executable} cannot be started: {error}") from error
            raise
        finally:
            for one in (tell, options, calls):
                os.close(one)
        try:
            first = await self._first_inside(told, process)
            tree = _Namespace(process.pid, first.descriptor, self.group, killed)
            stack.callback(tree.forget)
            await stack.enter_async_context(answering(first.pid, self.made_by.account, self._ports()))
        except BaseException:
            kill_group(process.pid)
            await insist(process.communicate())
            raise
        os.write(begin, b".")
        return _Started(Supervised(process, tree, command, self.room.limits.output, on_line), wait)

    def _options(self, command: Command, tell: int, wait: int, calls: int) -> list[str]:
        environment: Mapping[str, str] = command.environment
        if self.room.hosts:
            environment = {**_proxy_variables(), **environment}
        return [
            *arguments(self.room, self.made_by.machine, environment),
            *("--info-fd", str(tell), "--block-fd", str(wait)),
            *(("--seccomp", str(calls)) if self.made_by.calls else ()),
        ]

    def _ports(self) -> dict[int, Answer]:
        ports = {port: to_socket(path) for port, path in self.room.ports.items()}
        if self.room.hosts:
            ports[EGRESS_PORT] = self.made_by.egress(self.room.hosts)
        return ports

    async def _first_inside(self, told: int, process: asyncio.subprocess.Process) -> "_First":
        """The first process of the namespace, once bubblewrap tells of it. Raises SandboxError where it cannot."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(told, "rb", 0)
        )
        try:
            async with asyncio.timeout(START_SECONDS):  # wait_for may swallow a cancel
                said = await reader.read()
            return _opened(int(json.loads(said)["child-pid"]), process.pid)
        except (TimeoutError, ValueError, KeyError, ProcessLookupError):
            kill_group(process.pid)
            _, words = await process.communicate()
            raise explained(words.decode(errors="replace"), self.room.checkout) from None
        finally:
            transport.close()


@dataclass(frozen=True, slots=True)
class _Started:
    """A command that bubblewrap has been told to begin, by a byte in `wait`."""

    supervised: Supervised
    wait: int

    @property
    def never_began(self) -> bool:
        """Whether the byte is still there: bubblewrap gave up before it got so far, and the command cannot feign it."""
        return bool(select.select([self.wait], [], [], 0)[0])


@dataclass(frozen=True, slots=True)
class _First:
    """The first process of a namespace, and a descriptor that means it and no later one of its number."""

    pid: int
    descriptor: int


def _opened(pid: int, parent: int) -> _First:
    """The process of this number. Raises ProcessLookupError where that is no child of its parent any more."""
    descriptor = os.pidfd_open(pid)
    try:
        status = Path("/proc", str(pid), "stat").read_text("utf-8", "replace")
        is_child = int(status.rpartition(")")[2].split()[1]) == parent
    except (OSError, IndexError, ValueError):
        is_child = False
    if not is_child:
        os.close(descriptor)
        raise ProcessLookupError
    return _First(pid, descriptor)


class _Namespace:
    """A PID namespace with everything in it: it is over when its first process is."""

    def __init__(self, outer: int, first: int, group: Group | None, killed: int) -> None:
        self._outer = outer
        self._first = first
        self._group = group
        self._killed = killed

    async def end(self) -> None:
        """See Tree."""
        kill_group(self._outer)
        if self._first < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._first, gone.set)
        try:
            async with asyncio.timeout(GONE_SECONDS):
                await gone.wait()
        except TimeoutError:
            log.critical("processes of a sandbox do not end", extra={"pid": self._outer})
            raise SandboxError("processes of the sandbox do not end", hint="look for processes in state D") from None
        finally:
            loop.remove_reader(self._first)

    def killed_for_memory(self) -> bool:
        """See Tree."""
        return self._group is not None and self._group.killed_for_memory > self._killed

    def forget(self) -> None:
        """Let go of it once bubblewrap is gone too: it is ours to bury then where this process is the first of all."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._first, os.WEXITED | os.WNOHANG)
        os.close(self._first)
        self._first = -1


def _joined(options: Sequence[str]) -> bytes:
    """Options as bubblewrap reads them from a file: on its command line everybody on this machine would see them."""
    return b"".join(os.fsencode(one) + b"\0" for one in options)


def _fill(descriptor: int, content: bytes) -> None:
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{EGRESS_PORT}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    return {
        **{name: address for one in names for name in (one, one.upper())},
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost"),
    }
