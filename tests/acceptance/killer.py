"""A service that ends itself with SIGKILL when it passes a point for the n-th time after it was armed.

The product has no switch for this: everything is wrapped around its ports from outside. `POST /arm?point=...&nth=...`
arms it. Points are the edges of every transition: what a source, a step or an engine call is about to do or has done,
and each write to the database `:before` it, `:inside` (every statement executed, nothing committed) and `:after` it.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from aiohttp import web

import notify.message
from loops.agent.models.scripted import Script, ScriptedCall, ScriptedTurn
from loops.event import Delivery, Event, JsonValue
from loops.ports import DeliveryRow, Engine, Receipt, Writer
from loops.runs import lease
from loops.runs.settling import Settled
from loops.runs.state import Finish, Park, Wait
from loops.runs.step import Step, StepContext, StepOutcome
from notify import outbox
from notify.message import Message, Notifier, Notifiers, Outgoing, Refused, Settlement, Target, Unconnected
from server.app import Role, Service, Wiring
from tests.integration.running import Told, settings_for
from triggers.dispatch import BatchOutcome
from triggers.registry import SOURCES
from triggers.source import Arrival, Ignored, Incoming, Source

T = TypeVar("T")

# What a closure does is told by the one function of the store, or the method, that it calls.
_TRANSITIONS = {
    "claim": "claim", "settle": "settle", "finish": "finish", "wake": "wake", "keep_round": "round",
    "_store_end": "task_end", "_claim": "message_claim", "_move": "message_move",
    "open_note": "note", "keep_patch": "patch", "keep_head": "head", "move": "output",
}  # fmt: skip


class Fuse:
    """Burns once."""

    def __init__(self) -> None:
        self._point = ""
        self._left = 0

    def arm(self, point: str, nth: int) -> None:
        self._point, self._left = point, nth

    def pass_by(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FusedWriter:
    def __init__(self, inner: Writer, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    async def accept(self, row: DeliveryRow) -> Receipt:
        self._fuse.pass_by("accept:before")
        receipt = await self._inner.accept(row)
        self._fuse.pass_by("accept:after")
        return receipt

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        name = _transition(fn)
        self._fuse.pass_by(f"{name}:before")

        def inside(connection: sa.Connection) -> T:
            result = fn(connection)
            if not _is_idle(result):
                self._fuse.pass_by(f"{_settled(name, result)}:inside")
            return result

        result = await self._inner.run(inside)
        if not _is_idle(result):
            self._fuse.pass_by(f"{_settled(name, result)}:after")
        return result


def _settled(name: str, result: object) -> str:
    """What settling a step came to, which is known only once it is done."""
    if not isinstance(result, Settled):
        return name
    return "park" if isinstance(result.effect, Park) else "finish" if isinstance(result.effect, Finish) else "record"


def _transition(fn: Callable[..., Any]) -> str:
    if getattr(fn, "__name__", "") == "_batch":
        return "dispatch"
    code = getattr(fn, "__code__", None)
    called = set(getattr(code, "co_names", ()))
    if "claim_turn" in called:
        return "task_claim"
    return next((point for name, point in _TRANSITIONS.items() if name in called), "other")


def _is_idle(result: object) -> bool:
    return (isinstance(result, BatchOutcome) and result.taken == 0) or result == []


class FusedEngine:
    def __init__(self, inner: Engine, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        self._fuse.pass_by("enqueue:before")
        self._inner.enqueue(connection, run_id, seq, delay=delay)
        self._fuse.pass_by("enqueue:after")

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        self._fuse.pass_by("enqueue_task:before")
        self._inner.enqueue_task(connection, task_id, seq)
        self._fuse.pass_by("enqueue_task:after")

    async def wake(self, run_id: str, seq: int) -> None:
        self._fuse.pass_by("make_due:before")
        await self._inner.wake(run_id, seq)
        self._fuse.pass_by("make_due:after")

    async def drop(self, run_id: str, seq: int) -> None:
        await self._inner.drop(run_id, seq)


class FusedSource:
    def __init__(self, inner: Source, fuse: Fuse) -> None:
        self.name, self.limit, self.kept_headers = inner.name, inner.limit, inner.kept_headers
        self._inner = inner
        self._fuse = fuse

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        self._fuse.pass_by("receive:begin")
        arrival = self._inner.receive(incoming, secrets)
        self._fuse.pass_by("receive:end")
        return arrival

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        events = self._inner.parse(delivery, parsed, settings)
        self._fuse.pass_by("parse")
        return events


class FusedStep:
    def __init__(self, kind: str, inner: Step, fuse: Fuse) -> None:
        self._kind = kind
        self._inner = inner
        self._fuse = fuse

    async def run(self, context: StepContext) -> StepOutcome:
        self._fuse.pass_by(f"{self._kind}:run:begin")
        outcome = await self._inner.run(context)
        self._fuse.pass_by(f"{self._kind}:run:end")
        return outcome

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        self._fuse.pass_by(f"{self._kind}:resume:begin")
        outcome = await self._inner.resume(context, wait, wake)
        self._fuse.pass_by(f"{self._kind}:resume:end")
        return outcome


class FusedNotifiers:
    def __init__(self, inner: Notifiers, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
        found = await self._inner.of(target, project_id)
        return found if isinstance(found, Unconnected) else FusedNotifier(found, self._fuse)


class FusedNotifier:
    def __init__(self, inner: Notifier, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    async def parts(self, message: Message) -> int | Refused:
        return await self._inner.parts(message)

    async def send(self, outgoing: Outgoing) -> notify.message.Outcome:
        self._fuse.pass_by("send:before")
        outcome = await self._inner.send(outgoing)
        self._fuse.pass_by("send:after")
        return outcome

    async def settle(self, outgoing: Outgoing) -> Settlement:
        return await self._inner.settle(outgoing)


def script(fuse: Fuse) -> Script:
    """Three rounds, one of which writes, and two of another turn; each is said behind the fuse."""
    rounds = [
        ScriptedTurn("I note it.", (ScriptedCall("note_open", {"text": "Noted once."}),)),
        ScriptedTurn("I read it.", (ScriptedCall("event_read", {"path": "properties.title"}),)),
        ScriptedTurn("", (ScriptedCall("finalize", {"final_message": "Reported."}),)),
        ScriptedTurn("I read again.", (ScriptedCall("event_read", {"path": "properties.text"}),)),
        ScriptedTurn("", (ScriptedCall("finalize", {"final_message": "Answered."}),)),
    ]

    def behind(number: int, turn: ScriptedTurn) -> Callable[..., ScriptedTurn]:
        def say(_messages: object, _tools: object) -> ScriptedTurn:
            fuse.pass_by(f"model:{number}")
            return turn

        return say

    return [behind(number, turn) for number, turn in enumerate(rounds, start=1)]


def fused_wiring(fuse: Fuse) -> Wiring:
    """The product's parts, each behind the fuse."""

    async def arm(request: web.Request) -> web.Response:
        fuse.arm(request.query["point"], int(request.query["nth"]))
        return web.Response()

    def steps(ours: Mapping[str, Step]) -> Mapping[str, Step]:
        return {kind: FusedStep(kind, step, fuse) for kind, step in Told().among(ours).items()}

    return Wiring(
        writer=lambda writer: FusedWriter(writer, fuse),
        engine=lambda engine: FusedEngine(engine, fuse),
        steps=steps,
        models=lambda models: replace(models, default="scripted:killed", scripts={"killed": lambda: script(fuse)}),
        notifiers=lambda notifiers: FusedNotifiers(notifiers, fuse),
        # PostHog's is itself: only by what it is are captures received.
        sources={name: FusedSource(source, fuse) for name, source in SOURCES.items()} | {"posthog": SOURCES["posthog"]},
        routes=(web.post("/arm", arm),),
    )


def serve(folder: Path, url: str, port: int, role: Role, *, hasty: bool) -> None:
    """Run until killed. `hasty` leases, so that nobody waits long for a dead process's runs and
    messages."""
    if hasty:
        outbox.LEASE, outbox.SURELY_ABSENT = timedelta(seconds=3), timedelta(seconds=2)
        outbox._SETTLE_PAUSES = (timedelta(seconds=0.5), timedelta(seconds=1), timedelta(seconds=2))
        lease.TTL_SECONDS, lease.BEAT_SECONDS, lease._SURRENDER_SECONDS = 1.5, 0.3, 30.0
    asyncio.run(_serve(folder, url, port, role))


async def _serve(folder: Path, url: str, port: int, role: Role) -> None:
    service = Service(settings_for(folder, url, port=str(port)), role, fused_wiring(Fuse()))
    try:
        await service.start()
        await service.stopping.wait()
    finally:
        await service.stop()
