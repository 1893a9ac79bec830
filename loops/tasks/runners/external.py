"""A coding agent that is started as a command: in the task's sandbox, behind a proxy that has the key.

An agent that was killed with its worker cannot go on: what it knew is gone, and its checkout holds half of its work.
Its task ends as interrupted, with the rounds that were kept.
"""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from config.runner_settings import RunnerSettings
from loops.agent.budget import Pricing
from loops.agent.execution import cut
from loops.agent.inbox import NOTHING_HEARD, Heard
from loops.agent.interruption import Aborted, Expired
from loops.agent.models.runners import Chosen
from loops.agent.prices import Price, list_price
from loops.agent.result import AgentResult
from loops.agent.transcript import Usage
from loops.errors import LoopsError, SandboxError
from loops.expressions.quoting import quoted
from loops.ports import Clock
from loops.tasks.equipment import Job
from loops.tasks.runners.brief import schema_of, system_of
from loops.tasks.runners.program import program_of, version_of
from loops.tasks.runners.proxy.meter import Meter
from loops.tasks.runners.proxy.serve import Upstream, model_proxy
from loops.tasks.runners.runner import Work
from loops.tasks.runners.told import Dialect, Errand, Invocation, Reader
from loops.tasks.runners.trace import Spent, Trace
from loops.tasks.runners.verdict import Came, Stop, verdict
from loops.tasks.workspace.sandbox import Command, Ran, Room, Sandbox, Sandboxes, SandboxLimits
from loops.tasks.workspace.trees import removed
from loops.threads import on_own_thread

HOME: Final = "/tmp/home"  # noqa: S108 - of the sandbox, in its memory
_PORTS = range(20_000, 60_000)
"""One of them leads to the model. Each task has its own: without a sandbox they are those of this machine."""
_GRACE = 30.0
"""Seconds beyond the command's own until the whole is given up."""
_PROCESSES = 512
_BASE_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
_MOST_EARLIER = 16_000
_INTERRUPTED = "its worker stopped while it was under way, and a command cannot be taken up again"
_START = 'for one in "$HOME" $LOOPS_FOLDERS; do mkdir -p "$one" || exit 1; done; unset LOOPS_FOLDERS; exec "$0" "$@"'


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runners of a process share. `folder` is where those of tasks without a checkout get an empty one;
    `room_of` has the room of a task that works on code. `named` is told the name of the model."""

    sandboxes: Sandboxes
    folder: Path
    clock: Clock
    named: Callable[[Job, str], Awaitable[None]]
    room_of: Callable[[Work], Room | None]


def needs_sandbox(runner: str) -> SandboxError:
    """Why a runner is not started on the bare machine: the places that it is shown are made by the sandbox alone."""
    return SandboxError(
        f"runner {runner} needs the sandbox, and LOOPS_SANDBOX is none", hint="unset LOOPS_SANDBOX, or name a model"
    )


@dataclass(frozen=True, slots=True)
class ExternalRunner:
    """Runs one command, whose output `dialect` understands, with one model."""

    settings: RunnerSettings
    dialect: Dialect
    chosen: Chosen
    around: Surroundings

    async def run(self, work: Work) -> AgentResult:
        """See Runner."""
        if work.transcript.current:
            text = work.transcript.last_text
            return AgentResult("interrupted", _INTERRUPTED, work.transcript, text, fallback=True)
        if self.around.sandboxes.tier == "none":
            raise needs_sandbox(self.settings.name)
        await self.around.named(work.job, self.chosen.name)
        heard = await work.hears.heard() if work.transcript.turn > 1 else NOTHING_HEARD
        if self.settings.version is not None:
            await version_of(self.settings)
        async with AsyncExitStack() as stack:
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loops-")))
            token, socket, port = secrets.token_urlsafe(32), own / "model", secrets.choice(_PORTS)
            meter = await stack.enter_async_context(self._led(work, socket, token))
            invocation = self.dialect.invocation(self._errand(work, port, token, heard))
            ports = {} if meter is None else {port: socket}
            room = await stack.enter_async_context(self._room(work, invocation, ports))
            sandbox = await stack.enter_async_context(self.around.sandboxes.open(room))
            return await self._work(work, sandbox, invocation, meter, heard)

    def _errand(self, work: Work, port: int, token: str, heard: Heard) -> Errand:
        request, fields = work.job.request, _fields(work)
        return Errand(
            task_id=work.job.task.id,
            program=program_of(self.settings).path,
            model=self.chosen.model,
            system=system_of(fields),
            prompt=_prompt(work, heard),
            schema=schema_of(fields),
            max_rounds=work.guards.max_rounds,
            effort=request.get("effort"),
            base_url=f"http://127.0.0.1:{port}",
            token=token,
            arguments=self.settings.arguments,
        )

    @asynccontextmanager
    async def _led(self, work: Work, socket: Path, token: str) -> AsyncIterator[Meter | None]:
        """The way to its model, and what counts there; None where it has none of ours."""
        api, settings = self.dialect.api, self.settings
        if api is None:
            yield None
            return
        base_url = settings.base_url or _BASE_URLS[api]
        upstream = Upstream(settings.name, api, self.chosen.model, base_url, settings.api_key)
        meter = Meter(self._price, lambda pricing: work.limits.budget(pricing, work.transcript))
        async with model_proxy(socket, upstream, token, meter):
            yield meter

    def _price(self, model: str) -> Pricing:
        price = self.settings.price
        return list_price(self.dialect.api or "", model) if price is None else Price(price.input, price.output)

    @asynccontextmanager
    async def _room(self, work: Work, invocation: Invocation, ports: Mapping[int, Path]) -> AsyncIterator[Room]:
        """The room of the task with what the command needs, or an empty one."""
        place = self.around.folder / work.job.place
        await on_own_thread(lambda: self._furnish(place, invocation))
        try:
            room = self.around.room_of(work) or Room(place / "checkout")
            files = {path: place / Path(path).name for path in invocation.files}
            yield replace(
                room,
                readable={**room.readable, **program_of(self.settings).readable, **files},
                ports=ports,
                hosts=(*room.hosts, *self.settings.hosts),
                limits=SandboxLimits(memory=self.settings.memory << 20, processes=_PROCESSES),
            )
        finally:
            await on_own_thread(lambda: removed(place))

    def _furnish(self, place: Path, invocation: Invocation) -> None:
        removed(place)
        self.around.folder.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        for folder in (self.around.folder, place):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        (place / "checkout").mkdir()
        for path, content in invocation.files.items():
            (place / Path(path).name).write_bytes(content)
            (place / Path(path).name).chmod(0o644)
        self.around.sandboxes.own(place / "checkout")

    async def _work(
        self, work: Work, sandbox: Sandbox, invocation: Invocation, meter: Meter | None, heard: Heard
    ) -> AgentResult:
        trace = Trace(
            work.transcript,
            work.journal,
            work.observer,
            self.around.clock,
            _untold if meter is None else lambda: meter.spent,
            work.guards.result_size,
            heard,
        )
        reader = self.dialect.reader(trace)
        watch = _Watch(reader, trace, work.guards.max_rounds, meter)
        running = watch.until(sandbox.run(self._command(invocation), watch.line))
        try:
            ran, stop = await work.job.abort.within(running, self.settings.seconds + _GRACE)
        except Aborted:
            ran, stop = None, Stop("cancelled", "cancelled on request")
        except Expired:
            ran, stop = (
                None,
                Stop("timeout", f"it had {self.settings.seconds} seconds, and could not be stopped in time"),
            )
        await reader.end()
        told = reader.told()
        await trace.end(None if told is None else told.cost)
        came = Came(told, ran, stop, trace.transcript, trace.edits)
        return verdict(came, _fields(work))

    def _command(self, invocation: Invocation) -> Command:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": HOME,
            "LOOPS_FOLDERS": " ".join(invocation.folders),
            **invocation.environment,
        }
        return Command(
            ("/bin/sh", "-c", _START, *invocation.argv),
            environment=environment,
            stdin=invocation.stdin,
            seconds=float(self.settings.seconds),
            idle=float(self.settings.idle_seconds),
        )


def _fields(work: Work) -> Mapping[str, Any]:
    """What the report has to hold: later steps read that of the first turn alone."""
    return (work.job.request.get("fields") or {}) if work.transcript.turn == 1 else {}


def _prompt(work: Work, heard: Heard) -> str:
    """What it is asked for. A command remembers nothing of an earlier turn but what it is told: its own last words."""
    transcript = work.transcript
    if transcript.turn == 1:
        return transcript.opening
    before = next((one.reply.text for one in reversed(transcript.rounds) if one.reply.text.strip()), "")
    earlier = f"<your_earlier_report>\n{quoted(cut(before, _MOST_EARLIER))}\n</your_earlier_report>"
    return f"{transcript.opening}\n\n{earlier}\n\n{heard.text}"


def _untold() -> Spent:
    return Spent(Usage(estimated=True), None)


class _Watch:
    """Reads what a command prints, and sees what it must be stopped for."""

    def __init__(self, reader: Reader, trace: Trace, most: int, meter: Meter | None) -> None:
        self._reader = reader
        self._trace = trace
        self._most = most
        self._meter = meter
        self._over: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()

    async def line(self, line: bytes) -> None:
        """One line of its output."""
        if self._over.done():
            return
        try:
            await self._reader.line(line)
        except LoopsError as error:
            if not self._over.done():
                self._over.set_exception(error)
            return
        if self._trace.turn_rounds > self._most and not self._over.done():
            self._over.set_result(Stop("max_rounds", f"the limit of {self._most} rounds is reached"))

    async def until(self, running: Coroutine[Any, Any, Ran]) -> tuple[Ran | None, Stop | None]:
        """The end of the command, or why it was ended. Raises what its journal raised."""
        command = asyncio.ensure_future(running)
        verdicts: set[asyncio.Future[Any]] = {self._over}
        if self._meter is not None:
            verdicts.add(self._meter.verdict)
        try:
            await asyncio.wait({command, *verdicts}, return_when=asyncio.FIRST_COMPLETED)
            if self._over.done():
                return None, self._over.result()
            if self._meter is not None and self._meter.verdict.done():
                reason = self._meter.verdict.result()
                return None, Stop("budget" if self._meter.is_budget else "provider_error", reason)
            return command.result(), None
        finally:
            command.cancel()
            await asyncio.gather(command, return_exceptions=True)
