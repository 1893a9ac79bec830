"""A service that takes deliveries and dispatches them, connections of every sender, and what becomes of what is sent.

Runs are queued and nothing takes them: what is counted is what starts.
"""

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import sqlalchemy as sa
import yarl

from loops.store import deliveries as store
from loops.store.tables import deliveries, runs
from server.app import Service, Wiring
from tests.integration.running import eventually
from tests.integration.senders import SECRET, Hooks, Sent
from tests.integration.serving import Api, fresh_project, settings_for

_AT_ONCE = 24
_numbers = itertools.count(1)


class Receiving:
    """The service, with an API of its own project."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def elsewhere(self) -> "Receiving":
        """The same service, with a project of which nothing is known yet."""
        return Receiving(await fresh_project(self.api.service, self.api.session))

    async def connect(self, kind: str, **settings: str) -> str:
        """A connection; the path of its hook."""
        name = f"{kind} {next(_numbers)}"
        made = await self.api.post("integrations", {"kind": kind, "name": name, "settings": settings})
        return str(made["hook_url"]).removeprefix(self.api.service.url)

    async def hooks(self, webhooks: Iterable[Mapping[str, Any]] = (), api_key: str = "phc_of_these_tests") -> Hooks:
        """A connection of every kind, and the addresses of these workflows."""
        return Hooks(
            github=await self.connect("github", webhook_secret=SECRET),
            slack=await self.connect("slack", signing_secret=SECRET),
            posthog=await self.connect("posthog", webhook_secret=SECRET, api_key=api_key, group_types="company"),
            webhooks=tuple([await self.address(await self.create(one)) for one in webhooks]),
            api_key=api_key,
        )

    async def address(self, workflow_id: str) -> str:
        """The path that a workflow's webhook takes requests at."""
        url = (await self.api.get(f"workflows/{workflow_id}/webhook"))["url"]
        return str(url).removeprefix(self.api.service.url)

    async def create(self, document: Mapping[str, Any]) -> str:
        """A workflow; its id."""
        return str((await self.api.post("workflows", dict(document)))["id"])

    async def post(self, sent: Sent) -> tuple[int, Any]:
        """Send it; status and JSON of the answer."""
        url = yarl.URL(f"{self.api.service.url}{sent.path}", encoded=True)
        async with self._turn, self.api.session.post(url, data=io.BytesIO(sent.body), headers=sent.headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def rows(self, *ids: str) -> dict[str, Mapping[str, Any]]:
        """Stored deliveries without their bodies, by id; those of the project where none is named."""
        query = sa.select(*(column for column in deliveries.c if column.name != "body"))
        query = query.where(deliveries.c.id.in_(ids) if ids else deliveries.c.project_id == self.api.project)
        found = await self._read(query.order_by(deliveries.c.id))
        return {row["id"]: row for row in found}

    async def settled(self, *ids: str) -> dict[str, Mapping[str, Any]]:
        """The same, once nothing waits for dispatch any more; within 60 seconds."""
        await eventually(lambda: self.api.service.services.reader.read(store.backlog), lambda left: left == 0, 60)
        return await self.rows(*ids)

    async def started(self, *ids: str) -> dict[str, list[str]]:
        """The workflows of which a delivery started runs, by the delivery's id."""
        query = sa.select(runs.c.delivery_id, runs.c.workflow_id).where(runs.c.delivery_id.in_(ids))
        found: dict[str, list[str]] = {one: [] for one in ids}
        for row in await self._read(query):
            found[row["delivery_id"]].append(row["workflow_id"])
        return found

    async def _read(self, query: "sa.Select[Any]") -> list[Mapping[str, Any]]:
        return await self.api.service.services.reader.read(
            lambda connection: [dict(row) for row in connection.execute(query).mappings()]
        )


@asynccontextmanager
async def receiving(folder: Path, url: str, wiring: Wiring | None = None, **settings: str) -> AsyncIterator[Receiving]:
    """From the start of the service to its stop."""
    service = Service(settings_for(folder, url, **settings), "web", wiring)
    try:
        await service.start()
        async with aiohttp.ClientSession(service.url, cookie_jar=aiohttp.DummyCookieJar()) as session:
            yield Receiving(await fresh_project(service, session))
    finally:
        await service.stop()
