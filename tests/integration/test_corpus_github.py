"""Real payloads of GitHub over HTTP, where the corpus is there: answered as documented, started once, and settled."""

import asyncio
import hashlib
import hmac
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.event import Delivery
from loops.store import deliveries, tables
from server.app import Wiring
from tests.integration.running import PROJECT, SECRET, Running, eventually, running, workflow
from tests.unit.documentation import page, table
from triggers.registry import SOURCES
from triggers.source import Ignored

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "github"
FILES = sorted(CORPUS.glob("*.json"))
REASONS = dict(table(page("reference/events.md"), "delivery", "reason that is recorded"))

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not FILES, reason="the corpus of real payloads is not beside this checkout"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Receives and dispatches; runs are queued, and nothing takes them: what is counted here is what starts."""
    folder = tmp_path_factory.mktemp("corpus")
    async with running(folder, module_database_url, role="web", wiring=Wiring()) as started:
        yield started


def event_type(file: Path) -> str:
    return file.name.split("__")[0]


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def headers(file: Path, body: bytes, key: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event_type(file),
        "X-GitHub-Delivery": key,
        "X-Hub-Signature-256": signature(body),
    }


def meaning(file: Path, body: bytes, live: Running) -> tuple[str | None, str | None]:
    """Repository and claim of the event that the payload means; no repository where it means none."""
    delivery = Delivery("-", PROJECT, 1, "github", "-", event_type(file), live.services.clock.now(), {}, body)
    events = SOURCES["github"].parse(delivery, None, {})
    if isinstance(events, Ignored):
        return None, None
    repository = events[0].properties["repository"]
    return (repository if isinstance(repository, str) else None), events[0].claim


def everything(repositories: set[str], names: set[str]) -> dict[str, Any]:
    """A loop that takes every event of every repository of the corpus."""
    document = workflow("everything")
    properties = document["actions"][0]["config"]["filters"]["properties"]
    properties[0]["value"], properties[1]["value"] = sorted(repositories), sorted(names)
    del properties[2]
    return document


def with_own_subject(body: bytes) -> bytes:
    """The same payload about other subjects: the corpus tells many stories about the same issue."""
    payload = json.loads(body)
    for part in payload.values():
        if isinstance(part, dict) and "node_id" in part:
            part["node_id"] = uuid.uuid4().hex
    payload["before"] = uuid.uuid4().hex
    return json.dumps(payload).encode()


def documented(file: Path, body: bytes) -> tuple[int, str, str]:
    """Status, word and reason that the documentation promises."""
    reason = REASONS.get(event_type(file), "")
    if reason.endswith("names no repository") and json.loads(body).get("repository"):
        reason = ""
    return (200, "ignored", reason) if reason else (202, "accepted", "")


async def test_every_real_payload_is_answered_as_documented_once_as_new_and_starts_one_run(live: Running) -> None:
    bodies = {file: with_own_subject(file.read_bytes()) for file in FILES if valid(file)}
    told = {file: meaning(file, body, live) for file, body in bodies.items()}
    repositories = {repository for repository, _ in told.values() if repository}
    loop = await live.create(everything(repositories, {event_type(file) for file in FILES}))
    url = f"{live.service.url}/hooks/github/{live.hook}"
    first: dict[Path, str] = {}
    async with aiohttp.ClientSession() as client:
        for file, body in bodies.items():
            key = str(uuid.uuid4())
            answers = await asyncio.gather(*(answer(client, url, body, headers(file, body, key)) for _ in range(20)))
            (fresh,) = [one for one in answers if one[1]["status"] != "duplicate"]
            assert (fresh[0], fresh[1]["status"], fresh[1]["reason"]) == documented(file, body), (file.name, answers)
            again = {
                "delivery": fresh[1]["delivery"],
                "status": "duplicate",
                "reason": f"a delivery {key!r} was accepted before",
            }
            assert [one for one in answers if one is not fresh] == [(200, again)] * 19
            first[file] = fresh[1]["delivery"]
    await eventually(lambda: live.read(deliveries.backlog), lambda left: left == 0, 60)
    for file, delivery_id in first.items():
        row = await live.delivery(delivery_id)
        started = await live.read(lambda c, one=delivery_id: runs_of(c, one))  # type: ignore[misc]
        if told[file][0] is None:
            assert (row["status"], started) == ("ignored", []), file.name
        else:
            assert (row["status"], started) == ("dispatched", [loop.id]), (file.name, row["reason"])


async def test_every_real_payload_is_answered_the_same_as_a_form(live: Running) -> None:
    url = f"{live.service.url}/hooks/github/{live.hook}"

    async def check(client: aiohttp.ClientSession, file: Path, plain: bytes) -> str:
        body = urlencode({"payload": plain}).encode()
        sent = headers(file, body, str(uuid.uuid4())) | {"Content-Type": "application/x-www-form-urlencoded"}
        status, told = await answer(client, url, body, sent)
        assert (status, told["status"], told["reason"]) == documented(file, plain), file.name
        return str(told["delivery"])

    async with aiohttp.ClientSession() as client:
        sent = await asyncio.gather(*(check(client, file, file.read_bytes()) for file in FILES if valid(file)))
    await eventually(lambda: live.read(deliveries.backlog), lambda left: left == 0, 60)
    assert {(await live.delivery(one))["status"] for one in sent} <= {"dispatched", "ignored"}


async def test_every_real_payload_with_a_wrong_signature_is_401_and_not_stored(live: Running) -> None:
    url = f"{live.service.url}/hooks/github/{live.hook}"
    before = await live.read(count)
    async with aiohttp.ClientSession() as client:
        for file in FILES:
            body = file.read_bytes()
            sent = headers(file, body, str(uuid.uuid4())) | {"X-Hub-Signature-256": signature(body, "another secret")}
            status, told = await answer(client, url, body, sent)
            assert status == 401, file.name
            assert told["error"]["code"] == "delivery.signature"
    assert await live.read(count) == before


def valid(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except ValueError:
        return False


async def answer(
    client: aiohttp.ClientSession, url: str, body: bytes, sent: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    async with client.post(url, data=body, headers=sent) as response:
        return response.status, await response.json()


def runs_of(connection: sa.Connection, delivery_id: str) -> list[str]:
    query = sa.select(tables.runs.c.workflow_id).where(tables.runs.c.delivery_id == delivery_id)
    return list(connection.execute(query).scalars())


def count(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(tables.deliveries)).scalar_one()
