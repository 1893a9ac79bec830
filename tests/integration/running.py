"""A service inside the test's process: workflows to put into it, deliveries to send it, and what follows."""

import asyncio
import hashlib
import hmac
import itertools
import json
import os
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import sqlalchemy as sa

from config.settings import Settings, ensure_secret_key, read_settings
from loops.runs.state import Outcome, Parked, Succeeded, Wait
from loops.runs.step import Step, StepContext, StepOutcome
from loops.store import connections, deliveries, run_queries, tables
from loops.store.workflows import WorkflowRow
from server.app import Role, Service, Wiring

T = TypeVar("T")

SECRET = "the-webhook-secret-of-the-tests"
PROJECT = "default"
PATIENCE = 30.0


def settings_for(folder: Path, url: str, **changes: str) -> Settings:
    """Settings of a service in `folder` on the database of `url`, listening on a port of its own."""
    environment = {
        "LOOPS_DATA_DIR": str(folder),
        "LOOPS_DATABASE_URL": url,
        "LOOPS_SECRET_KEY": "k" * 40,
        "LOOPS_PORT": "0",
        "LOOPS_DRAIN_SECONDS": "0",
        "LOOPS_SUBJECT_HOURLY_RUNS": "0",
        "LOOPS_LOG_LEVEL": "error",
        **{f"LOOPS_{name.upper()}": value for name, value in changes.items()},
    }
    found = read_settings(None, environment)
    complete = found if isinstance(found, tuple) else ensure_secret_key(found)
    assert isinstance(complete, Settings), complete
    return complete


def log_action(name: str, text: str, **more: Any) -> dict[str, Any]:
    config = {"template_id": "template-log", "inputs": {"text": {"value": text}}}
    return {"id": name, "name": name, "type": "function", "config": config, **more}


def delay_action(name: str, duration: str) -> dict[str, Any]:
    return {"id": name, "name": name, "type": "delay", "config": {"delay_duration": duration}}


def workflow(
    name: str, *steps: Mapping[str, Any], repository: str = "acme/widgets", status: str = "active", **more: Any
) -> dict[str, Any]:
    """A workflow that begins with an issue opened in the repository and goes through the steps in their order."""
    wanted = {"repository": repository, "event_type": "issues", "action": "opened"}
    properties = [{"key": key, "value": [value], "operator": "exact", "type": "event"} for key, value in wanted.items()]
    filters = {
        "source": "internal-events",
        "events": [{"id": "$github_event_received", "type": "events"}],
        "properties": properties,
    }
    start = {"type": "internal-event", "filters": filters}
    trigger = {"id": "trigger", "name": "Trigger", "type": "trigger", "config": start}
    end = {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "done"}}
    actions = [trigger, *steps, end]
    ids = [action["id"] for action in actions]
    edges = [{"from": one, "to": two, "type": "continue"} for one, two in itertools.pairwise(ids)]
    return {"name": name, "status": status, "actions": actions, "edges": edges, **more}


def issue(repository: str = "acme/widgets", number: int = 1, **more: Any) -> dict[str, Any]:
    """The payload of an issue that was opened, new each time unless `node_id` says which it is."""
    node = more.pop("node_id", f"I_{uuid.uuid4().hex}")
    return {
        "action": "opened",
        "issue": {
            "number": number,
            "title": f"Issue {number}",
            "node_id": node,
            "updated_at": "2026-11-30T12:00:00Z",
            "user": {"login": "ada", "type": "User"},
            **more,
        },
        "repository": {"id": zlib.crc32(repository.lower().encode()), "full_name": repository, "private": False},
        "sender": {"login": "ada", "type": "User"},
    }


def signed(payload: Mapping[str, Any], key: str, event: str = "issues") -> tuple[bytes, dict[str, str]]:
    """Body and headers as GitHub sends them."""
    body = json.dumps(payload).encode()
    return body, {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": key,
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
    }


async def eventually(ask: Callable[[], Awaitable[T]], holds: Callable[[T], object], patience: float = PATIENCE) -> T:
    """Ask until the answer holds; fails with the last answer when it never does."""
    until = time.monotonic() + patience
    while True:
        answer = await ask()
        if holds(answer):
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"still {answer!r} after {patience:.0f} s")
        await asyncio.sleep(0.05)


class Told(Step):
    """What `template-log` does in tests: its text may tell it to do something else than log.

    `!sleep 3` sleeps and notes how it ended, `!note file 3` writes its process into the file before, `!until file`
    waits for a file to be there, `!raise` raises, `!return` comes to the JSON that follows, `!park` parks until it is
    woken (`!park twice`: again).
    """

    def __init__(self) -> None:
        self.slept: list[str] = []
        self.began: list[str] = []
        self._plain: Step = self

    def among(self, steps: Mapping[str, Step]) -> Mapping[str, Step]:
        """The steps with this one in place of `function`."""
        self._plain = steps["function"]
        return {**steps, "function": self}

    async def run(self, context: StepContext) -> StepOutcome:
        if context.action.config.template_id != "template-log":
            return await self._plain.run(context)
        order, _, rest = str(context.render()["text"]).partition(" ")
        self.began.append(context.key)
        if order == "!sleep":
            return await self._sleep(context.key, float(rest))
        if order == "!until":
            while not Path(rest).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
                await asyncio.sleep(0.05)
            return Succeeded({"seen": rest})
        if order == "!note":
            file, _, seconds = rest.partition(" ")
            with Path(file).open("a") as notes:  # noqa: ASYNC230 - a line, at once
                notes.write(f"{os.getpid()}\n")
            return await self._sleep(context.key, float(seconds))
        if order == "!raise":
            raise RuntimeError(f"this went wrong: {rest}")
        if order == "!return":
            return Succeeded(json.loads(rest))
        if order == "!park":
            return Parked(_long({"twice": rest == "twice"}))
        return await self._plain.run(context)

    async def _sleep(self, key: str, seconds: float) -> Outcome:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)  # as tidying up would take its time
            self.slept.append(f"{key} cancelled")
            raise
        self.slept.append(f"{key} done")
        return Succeeded({"slept": seconds})

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, Any] | None) -> StepOutcome:
        if context.action.config.template_id != "template-log":
            return await self._plain.resume(context, wait, wake)
        context.log("woken" if wake is not None else "deadline")
        if wait.detail.get("twice"):
            return Parked(_long({"twice": False}))
        return Succeeded(dict(wake or {}))


def _long(detail: Mapping[str, Any]) -> Wait:
    return Wait("approval", datetime.now(UTC) + timedelta(days=1), detail)


class Running:
    """A started service and what a test does with it."""

    def __init__(self, service: Service, hook: int) -> None:
        self.service = service
        self.services = service.services
        self.hook = hook

    async def create(self, document: Mapping[str, Any]) -> WorkflowRow:
        return (await self.services.workflows.create(PROJECT, dict(document), "test")).row

    async def post(
        self, payload: Mapping[str, Any], *, key: str | None = None, event: str = "issues"
    ) -> dict[str, Any]:
        """Send a delivery over HTTP; the answer."""
        body, headers = signed(payload, key or str(uuid.uuid4()), event)
        url = f"{self.service.url}/hooks/github/{self.hook}"
        async with aiohttp.ClientSession() as client, client.post(url, data=body, headers=headers) as response:
            return {"http": response.status, **await response.json()}

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.services.reader.read(fn)

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.services.writer.run(fn)

    async def delivery(self, delivery_id: str) -> Mapping[str, Any]:
        return await self.read(lambda connection: deliveries.find(connection, PROJECT, delivery_id))

    async def settled(self, delivery_id: str) -> Mapping[str, Any]:
        """The delivery once dispatch has dealt with it."""
        return await eventually(lambda: self.delivery(delivery_id), lambda row: row["status"] != "accepted")

    async def verdicts(self, delivery_id: str) -> list[Mapping[str, Any]]:
        events = await self.read(lambda connection: deliveries.events_of(connection, delivery_id))
        return [verdict for event in events for verdict in event["verdicts"]]

    async def runs(self, workflow_id: str) -> Sequence[Mapping[str, Any]]:
        return await self.read(lambda c: run_queries.page(c, PROJECT, limit=100, workflow_id=workflow_id))

    async def run(self, run_id: str) -> Mapping[str, Any]:
        return await self.read(lambda connection: run_queries.get(connection, PROJECT, run_id))

    async def row(self, run_id: str) -> Mapping[str, Any]:
        """Every column of the run."""
        query = sa.select(tables.runs).where(tables.runs.c.id == run_id)
        return await self.read(lambda connection: dict(connection.execute(query).mappings().one()))

    async def steps(self, run_id: str) -> list[Mapping[str, Any]]:
        return await self.read(lambda connection: run_queries.steps(connection, run_id))

    async def until(self, run_id: str, *statuses: str, patience: float = PATIENCE) -> Mapping[str, Any]:
        """The run once it has one of the statuses."""
        return await eventually(lambda: self.run(run_id), lambda row: row["status"] in statuses, patience)

    async def started(self, workflow_id: str, payload: Mapping[str, Any]) -> str:
        """Post a delivery, and the id of the run that it starts of this workflow."""
        answer = await self.post(payload)
        assert answer["http"] == 202, answer
        await self.settled(answer["delivery"])
        found = [run for run in await self.runs(workflow_id) if run["delivery_id"] == answer["delivery"]]
        assert len(found) == 1, found
        return str(found[0]["id"])


@asynccontextmanager
async def running(
    folder: Path, url: str, *, role: Role = "all", wiring: Wiring | None = None, **changes: str
) -> AsyncIterator[Running]:
    """A service from its start to its stop, with one GitHub connection."""
    service = Service(settings_for(folder, url, **changes), role, wiring)
    try:
        await service.start()
        yield Running(service, await service.services.writer.run(lambda c: _connect(c, service)))
    finally:
        await service.stop()


def _connect(connection: sa.Connection, service: Service) -> int:
    known = connections.listed(connection, PROJECT, "github")
    if known:
        return known[0].id
    sealed = service.services.box.seal({"webhook_secret": SECRET})
    return connections.insert(
        connection,
        project_id=PROJECT,
        kind="github",
        name="tests",
        config={},
        secrets=sealed,
        now=service.services.clock.now(),
    )
