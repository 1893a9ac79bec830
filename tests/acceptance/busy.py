"""A service whose every slot for runs and tasks is taken, and deliveries that arrive at a fixed rate all the same."""

import asyncio
import itertools
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from loops.agent.models.scripted import ScriptedTurn
from loops.store.tables import deliveries, runs
from loops.store.task_tables import tasks
from server.app import Role, Service, Wiring
from tests.acceptance.victims import Victim, free_port
from tests.bench.load import Connection, connect
from tests.doubles.slack_socket import APP_TOKEN, SlackSocketDouble, until
from tests.integration import slack_loops
from tests.integration.running import Told, eventually, issue, log_action, running, settings_for, signed, workflow
from tests.integration.tasking import scripted, task_action

RUNS, TASKS = 8, 4
_LONG = 600.0
_WATCHED, _HELD, _TASKED = "acme/widgets", "acme/held", "acme/tasked"
_HOOKED, _SOCKETED = "C0HOOKED", "C0SOCKETED"
_HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n{headers}\r\n"

Send = Callable[[], Awaitable[int]]
"""Sends one delivery, each time another; the status that it is answered with."""


def serve(folder: Path, url: str, port: int, role: Role, *, hasty: bool) -> None:
    """A service in which `!sleep` holds a run's slot, and a task's model says nothing for ten minutes."""
    asyncio.run(_serve(folder, url, port, role))


async def _serve(folder: Path, url: str, port: int, role: Role) -> None:
    wiring = scripted(lambda: [ScriptedTurn("", pause=_LONG)], Wiring(steps=Told().among))
    settings = settings_for(folder, url, port=str(port), runs=str(RUNS), tasks=str(TASKS))
    service = Service(settings, role, wiring)
    try:
        await service.start()
        await service.stopping.wait()
    finally:
        await service.stop()


@dataclass
class Answered:
    """How long answers took, in seconds, and their statuses."""

    seconds: list[float] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def words(self) -> str:
        """In brief."""
        ordered = sorted(self.seconds)
        p50, p99, longest = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99, 1.0))
        told = ", ".join(map(str, sorted(self.statuses)))
        return f"{len(ordered)} answers ({told}): p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {longest:.1f} ms"


class Busy:
    """The service, and ways to deliver to it. Every delivery is wanted by one workflow."""

    def __init__(self, victim: Victim, slack_hook: int, slack: SlackSocketDouble) -> None:
        self.victim = victim
        self.slack = slack
        self.ways: Mapping[str, Send] = {
            "GitHub": self._github,
            "Slack over HTTP": self._slack_over_http,
            "Slack by socket": self._slack_by_socket,
        }
        self._slack_hook = slack_hook
        self._idle: list[Connection] = []
        self._ts = itertools.count(1)

    async def fill(self) -> None:
        """Take every slot: tasks first, whose runs need a slot for a moment."""
        for _ in range(TASKS):
            await self.victim.accepted(issue(_TASKED), str(uuid.uuid4()))
        await eventually(lambda: self._running(tasks), lambda count: count == TASKS)
        for _ in range(RUNS):
            await self.victim.accepted(issue(_HELD), str(uuid.uuid4()))
        await eventually(lambda: self._running(runs), lambda count: count == RUNS)
        await until(lambda: bool(self.slack.sockets))

    async def offered(self, rate: float, seconds: float) -> dict[str, Answered]:
        """Deliver in all ways by turns, at a fixed rate with random gaps: waiting in line counts."""
        answered = {name: Answered() for name in self.ways}
        due = time.perf_counter()
        until_then = due + seconds
        async with asyncio.TaskGroup() as group:
            for name in itertools.cycle(self.ways):
                due += random.expovariate(rate)
                if due > until_then:
                    return answered
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(_timed(self.ways[name], due, answered[name]))
        raise AssertionError("an endless cycle ended")

    async def still_full(self) -> bool:
        """Whether every slot is taken as before."""
        return (await self._running(tasks), await self._running(runs)) == (TASKS, RUNS)

    async def queued(self) -> int:
        """How many runs wait for a slot once everything that arrived is dispatched."""
        waiting = sa.select(sa.func.count().label("count")).where(deliveries.c.status == "accepted")
        await eventually(lambda: self._count(waiting), lambda count: count == 0, patience=120)
        return await self._count(sa.select(sa.func.count().label("count")).where(runs.c.status == "queued"))

    async def _running(self, table: sa.Table) -> int:
        return await self._count(sa.select(sa.func.count().label("count")).where(table.c.status == "running"))

    async def _count(self, query: "sa.Select[Any]") -> int:
        return int((await self.victim.found(query))[0]["count"])

    async def _github(self) -> int:
        body, headers = signed(issue(_WATCHED), str(uuid.uuid4()))
        return await self._ask(f"/hooks/github/{self.victim.hook}", body, headers)

    async def _slack_over_http(self) -> int:
        body = slack_loops.encoded(self._message(_HOOKED))
        return await self._ask(f"/hooks/slack/{self._slack_hook}", body, slack_loops.signed(body))

    async def _slack_by_socket(self) -> int:
        await self.slack.deliver(self._message(_SOCKETED))
        return 200

    def _message(self, channel: str) -> Mapping[str, Any]:
        return slack_loops.post(f"Ev{uuid.uuid4().hex}", f"1793610000.{next(self._ts):06d}", channel=channel)

    async def _ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        connection = self._idle.pop() if self._idle else await connect(self.victim.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        status = await connection.ask([_HEAD.format(path=path, length=len(body), headers=lines).encode(), body])
        self._idle.append(connection)
        return status


async def _timed(send: Send, due: float, answered: Answered) -> None:
    answered.statuses.add(await send())
    answered.seconds.append(time.perf_counter() - due)


@asynccontextmanager
async def busy(folder: Path, url: str, slack: SlackSocketDouble) -> AsyncIterator[Busy]:
    """The service, started and full."""
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as prepared:
        for document in _documents():
            await prepared.create(document)
        hook = await slack_loops.connect(prepared, "hooked", signing_secret=slack_loops.SECRET)
        await slack_loops.connect(prepared, "socketed", app_token=APP_TOKEN, api_base_url=slack.url)
    victim = Victim(folder, url, prepared.hook, free_port(), serve=serve)
    victim.begin()
    try:
        found = Busy(victim, hook, slack)
        await found.fill()
        yield found
    finally:
        await victim.end()


def _documents() -> Sequence[Mapping[str, Any]]:
    return (
        workflow("watched", log_action("log", "seen")),
        workflow("held", log_action("held", f"!sleep {_LONG:.0f}"), repository=_HELD),
        workflow("tasked", task_action(), repository=_TASKED),
        slack_loops.listening("hooked", _HOOKED),
        slack_loops.listening("socketed", _SOCKETED),
    )
