"""A service in the test's process, and what tests do with it over HTTP."""

import asyncio
import hashlib
import hmac
import io
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import sqlalchemy as sa

from config.settings import Settings, read_settings
from loops.store import connections
from loops.store.ids import new_id
from loops.store.tables import projects
from server.app import Service, Wiring
from server.auth import Role, new_token

KEY = "the key of a test " * 2
SECRET = "a webhook secret"

_numbers = itertools.count(1)


def settings_for(folder: Path, database_url: str, **environ: str) -> Settings:
    """Settings of a service on any free port."""
    given = {"DATA_DIR": str(folder), "DATABASE_URL": database_url, "SECRET_KEY": KEY, "PORT": "0"}
    # No sandbox is tried out, which costs each start processes; tests that need one say so.
    given |= {"SUBJECT_HOURLY_RUNS": "0", "SANDBOX": "none", **environ}
    found = read_settings(None, {f"LOOPS_{name}": value for name, value in given.items()})
    assert isinstance(found, Settings), found
    return found


@asynccontextmanager
async def running(settings: Settings, wiring: Wiring | None = None) -> AsyncIterator[Service]:
    service = Service(settings, wiring=wiring)
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


class Api:
    """The API of one project, with one token."""

    def __init__(self, session: aiohttp.ClientSession, project: str, token: str, service: Service) -> None:
        self.session = session
        self.project = project
        self.token = token
        self.service = service

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: Any = None,
        **query: Any,
    ) -> tuple[int, Any]:
        """The status and the JSON of an answer; a path that begins with a slash is taken as it stands."""
        target = path if path.startswith("/") else f"/api/projects/{self.project}/{path}"
        sent = {"Authorization": f"Bearer {self.token}"} if headers is None else headers
        content = io.BytesIO(raw or b"" if body is None else json.dumps(body).encode())
        async with self.session.request(method, target, data=content, headers=sent, params=query) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None

    async def get(self, path: str, **query: Any) -> Any:
        """What a GET that succeeds gives."""
        status, told = await self.call("GET", path, **query)
        assert status == 200, told
        return told

    async def post(self, path: str, body: object = None) -> Any:
        """What a POST that succeeds gives."""
        status, told = await self.call("POST", path, {} if body is None else body)
        assert status in {200, 201}, told
        return told

    async def refused(self, method: str, path: str, body: object = None, **query: Any) -> tuple[int, dict[str, Any]]:
        """The status and the error of a call that fails."""
        status, told = await self.call(method, path, body, **query)
        assert status >= 400, told
        assert {"code", "message"} <= told["error"].keys()
        return status, told["error"]

    def as_role(self, token: str) -> "Api":
        """The same with another token."""
        return Api(self.session, self.project, token, self.service)

    async def github(self) -> str:
        """A GitHub connection; the path of its hook."""
        body = {"kind": "github", "name": f"hub {next(_numbers)}", "settings": {"webhook_secret": SECRET}}
        made = await self.post("integrations", body)
        return f"/hooks/github/{made['id']}"

    async def deliver(self, hook: str, event: str, payload: object, key: str | None = None) -> str:
        """Send a signed delivery; our id of it, once it is settled."""
        body = json.dumps(payload).encode()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": key or str(uuid.uuid4()),
            "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        }
        status, told = await self.call("POST", hook, raw=body, headers=headers)
        assert status in {200, 202}, told
        await self.until(f"deliveries/{told['delivery']}", lambda delivery: delivery["status"] != "accepted")
        return str(told["delivery"])

    async def until(self, path: str, wanted: Callable[[Any], bool]) -> Any:
        """What is at the path once it is as wanted."""
        return await eventually(lambda: self.get(path), wanted)


async def eventually(look: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool]) -> Any:
    """What looking gives once it is as wanted."""
    async with asyncio.timeout(20):
        while True:
            found = await look()
            if wanted(found):
                return found
            await asyncio.sleep(0.02)


async def fresh_project(service: Service, session: aiohttp.ClientSession) -> Api:
    """A project of the test's own, and its admin."""
    project = f"p{next(_numbers)}"
    row = {"id": project, "name": project, "time_zone": "UTC", "created_at": datetime.now(UTC)}
    await service.services.writer.run(lambda connection: connection.execute(projects.insert().values(**row)))
    return Api(session, project, await fresh_token(service, project, "admin"), service)


async def fresh_token(service: Service, project: str, role: Role) -> str:
    """A new token of that role."""
    token, digest = new_token()

    def put(connection: sa.Connection) -> bool:
        return connections.insert_token(
            connection,
            token_id=new_id(),
            project_id=project,
            name=role,
            role=role,
            digest=digest,
            now=datetime.now(UTC),
        )

    assert await service.services.writer.run(put)
    return token


def listening(name: str, action: str = "opened", repository: str = "acme/widgets", **more: Any) -> dict[str, Any]:
    """A workflow that notes an issue."""

    def exact(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": [value], "operator": "exact", "type": "event"}

    filters = {
        "source": "internal-events",
        "events": [{"id": "$github_event_received", "type": "events"}],
        "properties": [exact("repository", repository), exact("event_type", "issues"), exact("action", action)],
    }
    return workflow(name, {"type": "internal-event", "filters": filters}, **more)


def workflow(name: str, trigger: dict[str, Any], wait: str | None = None, **more: Any) -> dict[str, Any]:
    """A workflow that notes a line; with `wait`, a duration, it waits before."""
    note = {"template_id": "template-log", "inputs": {"text": {"value": "noted {event.properties.sender}"}}}
    middle = [{"id": "note", "name": "Note", "type": "function", "config": note}]
    if wait is not None:
        middle.insert(0, {"id": "wait", "name": "Wait", "type": "delay", "config": {"delay_duration": wait}})
    actions = [
        {"id": "trigger", "name": "Trigger", "type": "trigger", "config": trigger},
        *middle,
        {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "Noted"}},
    ]
    ids = [action["id"] for action in actions]
    edges = [{"from": one, "to": other, "type": "continue"} for one, other in itertools.pairwise(ids)]
    return {"name": name, "status": "active", "actions": actions, "edges": edges, **more}
