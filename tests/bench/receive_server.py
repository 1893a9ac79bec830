"""The servers that receive.py measures: `bare`, or the product in one of its modes."""

import asyncio
import dataclasses
import gc
import hmac
import itertools
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
import uvloop
from aiohttp import web

from config.settings import Settings, ensure_secret_key, read_settings
from loops.runs.state import Outcome, Succeeded
from loops.runs.step import NeverParks, StepContext
from loops.store import connections, deliveries, tables, workflows
from loops.store.workflows import WorkflowRow
from server.app import Service, Wiring
from server.services import SERVICES
from tests.bench.payloads import SECRET
from tests.bench.slack_server import SECRET as SLACK_SECRET

_TRIGGERS = 10_000


class _Repository(msgspec.Struct):
    full_name: str | None = None


class _Wanted(msgspec.Struct):
    action: str | None = None
    repository: _Repository | None = None
    ref: str | None = None


async def bare(port: int) -> None:
    decode = msgspec.json.Decoder(_Wanted).decode
    secret = SECRET.encode()

    async def hook(request: web.Request) -> web.Response:
        body = await request.read()
        expected = "sha256=" + hmac.new(secret, body, "sha256").hexdigest()
        if not hmac.compare_digest(expected, request.headers["X-Hub-Signature-256"]):
            return web.Response(status=401)
        decode(body)
        return web.Response(body=b'{"status":"accepted"}', content_type="application/json")

    app = web.Application(client_max_size=26_214_400)
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    gc.freeze()
    await asyncio.Event().wait()


def _definition(number: int) -> dict[str, Any]:
    wanted = {"repository": f"acme/repo-{number}", "event_type": "issues", "action": "opened"}
    log = {"template_id": "template-log", "inputs": {"text": {"value": "{event.properties.title}"}}}
    steps = [f"log_{count}" for count in (1, 2)]
    names = ["trigger", *steps, "exit"]
    return {
        "name": f"bench {number}",
        "status": "active",
        "actions": [
            {"id": "trigger", "name": "Trigger", "type": "trigger", "config": {
                "type": "internal-event", "filters": {
                    "source": "internal-events",
                    "events": [{"id": "$github_event_received", "type": "events"}],
                    "properties": [
                        {"key": key, "value": [value], "operator": "exact", "type": "event"}
                        for key, value in wanted.items()
                    ]}}},
            *[{"id": name, "name": name, "type": "function", "config": log} for name in steps],
            {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "done"}},
        ],
        "edges": [
            {"from": before, "to": after, "type": "continue"} for before, after in itertools.pairwise(names)
        ],
    }  # fmt: skip


def _row(number: int, epoch: int, now: datetime) -> WorkflowRow:
    definition = _definition(number)
    return WorkflowRow(
        id=str(uuid.uuid4()), project_id="default", name=definition["name"], description="", status="active",
        origin_product=None, version=1, definition=definition, changed_epoch=epoch, since_epoch=epoch,
        enabled_by="bench", created_by="bench", created_at=now, updated_at=now,
    )  # fmt: skip


def _revision(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("version", "definition", "created_by", "created_at")}
    return {"workflow_id": row["id"], **kept}


def _fill(connection: sa.Connection, service: Service) -> None:
    now = datetime.now(UTC)
    epoch = workflows.bump_epoch(connection)
    rows = [dataclasses.asdict(_row(number, epoch, now)) for number in range(_TRIGGERS)]
    connection.execute(tables.workflows.insert(), rows)
    connection.execute(tables.revisions.insert(), [_revision(row) for row in rows])
    for kind, secret in (("github", {"webhook_secret": SECRET}), ("slack", {"signing_secret": SLACK_SECRET})):
        sealed = service.services.box.seal(secret)
        connections.insert(
            connection, project_id="default", kind=kind, name="bench", config={}, secrets=sealed, now=now
        )


class BusyStep(NeverParks):
    """Holds its slot for as long as the bench lasts."""

    async def run(self, context: StepContext) -> Outcome:
        await asyncio.sleep(600)
        return Succeeded()


def settings(port: int, data: Path) -> Settings:
    environment = {"LOOPS_DATA_DIR": str(data), "LOOPS_PORT": str(port), "LOOPS_LOG_LEVEL": "error"}
    # Every matching delivery is of one issue.
    found = read_settings(None, {**environment, "LOOPS_SUBJECT_HOURLY_RUNS": "0"})
    complete = found if isinstance(found, tuple) else ensure_secret_key(found)
    if isinstance(complete, tuple):
        raise SystemExit("\n".join(f"{one.setting}: {one.message}" for one in complete))
    return complete


async def product(mode: str, port: int, data: Path, *, busy: bool) -> None:
    def steps(ours: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**ours, "function": BusyStep()} if busy else ours

    routes = (web.get("/bench/backlog", _backlog),)
    wiring = Wiring(steps=steps, dispatching=mode != "accept", routes=routes)
    given = settings(port, data)
    prepared = Service(dataclasses.replace(given, port=0), "web", Wiring(dispatching=False))
    await prepared.start()
    await prepared.services.writer.run(lambda connection: _fill(connection, prepared))
    await prepared.stop()
    service = Service(given, "all" if mode == "execute" else "web", wiring)
    await service.start()
    await service.stopping.wait()


async def _backlog(request: web.Request) -> web.Response:
    return web.json_response({"backlog": await request.app[SERVICES].reader.read(deliveries.backlog)})


async def main() -> None:
    mode, port, data, *options = sys.argv[1:]
    if mode == "bare":
        await bare(int(port))
    else:
        Path(data).mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs yet
        await product(mode, int(port), Path(data), busy="--busy" in options)


if __name__ == "__main__":
    uvloop.run(main())
