"""A sender that delivers as fast as it is answered, to a service that is killed in the middle.

It is as patient as GitHub and Slack are: what was not answered it sends again, with the same id; what was answered it
never sends again. So what is missing in the end was lost, and what is there twice was not recognised.
"""

import asyncio
import collections
import contextlib
import time
import uuid
from dataclasses import dataclass, field

import sqlalchemy as sa

from loops.store.tables import deliveries, runs
from tests.acceptance.victims import Victim
from tests.bench.load import Connection, connect
from tests.bench.payloads import Template, build
from tests.integration.running import SECRET, eventually, log_action, workflow

LISTENING = workflow("flooded", log_action("log", "{event.properties.title}"))
_REPOSITORY = "acme/widgets"
_CONNECTIONS = 32
# Of a hundred deliveries: what the workflow wants, and what comes so near that a verdict is stored. For the others no
# loop listens.
_WANTED, _NEAR = 3, 7


@dataclass
class Flood:
    """`count` deliveries; the service is killed when `kill_at` of them have been answered."""

    victim: Victim
    count: int
    kill_at: int
    answered: dict[str, int] = field(default_factory=dict)
    sent_again: int = 0
    before_the_kill: int = 0
    seconds: float = 0.0
    seconds_down: float = 0.0

    def __post_init__(self) -> None:
        self._keys = [f"{number:05d}-{uuid.uuid4().hex}" for number in range(self.count)]
        self._waiting = collections.deque(self._keys)
        self._wanted = build("issues", _REPOSITORY, "opened", SECRET)
        self._near = build("issues", _REPOSITORY, "closed", SECRET)
        self._others = [
            build("push", _REPOSITORY, None, SECRET),
            build("issue_comment", "other/thing", "created", SECRET),
            build("pull_request", "other/thing", "synchronize", SECRET),
        ]

    async def run(self) -> None:
        """Until every delivery was answered."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kill())
            for _ in range(_CONNECTIONS):
                group.create_task(self._send())
        self.seconds = time.monotonic() - begun

    async def _kill(self) -> None:
        await eventually(self._progress, lambda answered: answered >= self.kill_at, patience=600)
        assert self.victim.process is not None
        self.victim.process.kill()
        began = time.monotonic()
        await self.victim.died()
        self.before_the_kill = len(self.answered)
        self.victim.begin()
        await eventually(self._progress, lambda answered: answered > self.before_the_kill, patience=120)
        self.seconds_down = time.monotonic() - began

    async def _progress(self) -> int:
        return len(self.answered)

    async def _send(self) -> None:
        connection: Connection | None = None
        while self._waiting:
            if connection is None and (connection := await self._connected()) is None:
                continue
            key = self._waiting.popleft()
            status = await connection.ask(self._template(key).parts(f"/hooks/github/{self.victim.hook}", key))
            if 200 <= status < 300:
                self.answered[key] = status
                continue
            assert status == 599, status  # nobody there: the one thing that may happen to a delivery
            connection = None
            self.sent_again += 1
            self._waiting.append(key)

    async def _connected(self) -> Connection | None:
        with contextlib.suppress(OSError):
            return await connect(self.victim.port)
        await asyncio.sleep(0.05)
        return None

    def _template(self, key: str) -> Template:
        match int(key[:5]) % 100:
            case rest if rest < _WANTED:
                return self._wanted.fresh()
            case rest if rest < _WANTED + _NEAR:
                return self._near.fresh()
            case rest:
                return self._others[rest % len(self._others)]

    async def check(self) -> None:
        """Every delivery is there exactly once and was dispatched; what the loop wants has started exactly one run."""
        await eventually(self._backlog, lambda left: left == 0, patience=300)
        stored = await self.victim.found(sa.select(deliveries.c.id, deliveries.c.key, deliveries.c.status))
        assert sorted(row["key"] for row in stored) == self._keys
        wanted = {key for key in self._keys if int(key[:5]) % 100 < _WANTED}
        assert {row["key"] for row in stored if row["status"] == "dispatched"} == wanted
        assert {row["status"] for row in stored} == {"dispatched", "ignored"}
        started = await self.victim.found(sa.select(runs.c.delivery_id))
        by_id = {row["id"]: row["key"] for row in stored}
        assert sorted(by_id[run["delivery_id"]] for run in started) == sorted(wanted)

    async def _backlog(self) -> int:
        waiting = sa.select(sa.func.count().label("waiting")).where(deliveries.c.status == "accepted")
        return int((await self.victim.found(waiting))[0]["waiting"])

    def words(self) -> str:
        """What happened."""
        again = sum(status == 200 for status in self.answered.values())
        return (
            f"{self.count} deliveries in {self.seconds:.1f} s; killed after {self.before_the_kill} answers, nobody "
            f"answered for {self.seconds_down:.1f} s; {self.sent_again} sent again, {again} of them stored already"
        )
