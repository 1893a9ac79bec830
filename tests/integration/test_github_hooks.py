"""GitHub over HTTP, from the request to the runs, on SQLite and on Postgres."""

import asyncio
import hashlib
import hmac
import io
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections, tables
from server.app import Wiring
from tests.integration.github_loops import KINDS, connect, exact
from tests.integration.running import PROJECT, SECRET, Running, eventually, log_action, running, workflow
from tests.unit.triggers.github.deliveries import fixture, without

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = "application/x-www-form-urlencoded"
LIMIT = 26_214_400
OUTSIDE = "\U0001f389 中文 cafe\N{COMBINING ACUTE ACCENT}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Receives and dispatches; runs are queued, and nothing takes them: what is counted here is what starts."""
    folder = tmp_path_factory.mktemp("hub")
    async with running(folder, module_database_url, role="web", wiring=Wiring()) as started:
        yield started


class Hub:
    """A repository of the test's own, a loop that hears all of it, and the hook of a connection."""

    def __init__(self, live: Running, repository: str) -> None:
        self.live = live
        self.repository = repository
        self.loop = ""

    async def listen(self, *properties: Mapping[str, Any], repository: str = "") -> str:
        document = workflow(repository or self.repository, log_action("note", "noted"))
        wanted = [exact("repository", repository or self.repository), KINDS, *properties]
        document["actions"][0]["config"]["filters"]["properties"] = wanted
        return (await self.live.create(document)).id

    def payload(self, name: str = "issues__opened", **changes: Any) -> dict[str, Any]:
        """A payload about this repository, whose subject is new."""
        made = fixture(name, **changes)
        if isinstance(made.get("repository"), dict):
            made["repository"] = {**made["repository"], "full_name": self.repository}
        for part in ("issue", "comment", "pull_request", "review"):
            if isinstance(made.get(part), dict):
                made[part] = {**made[part], "node_id": uuid.uuid4().hex}
        return made

    async def send(self, payload: Any, event: str = "issues", **headers: str | None) -> tuple[int, Any]:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        sent: dict[str, str | None] = {
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": signature(body),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await self.post(body, {name: value for name, value in sent.items() if value is not None})

    async def post(self, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        url = f"{self.live.service.url}/hooks/github/{self.live.hook}"
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with aiohttp.ClientSession() as client, client.post(url, data=data, headers=headers) as response:
            return response.status, await response.json()

    async def settled(self) -> list[dict[str, Any]]:
        """Every delivery of the connection, once all are settled."""
        query = sa.select(tables.deliveries).where(tables.deliveries.c.connection_id == self.live.hook)

        async def look() -> list[dict[str, Any]]:
            rows = query.order_by(tables.deliveries.c.id)
            return await self.live.read(lambda c: [dict(row) for row in c.execute(rows).mappings()])

        return await eventually(look, lambda rows: all(row["status"] != "accepted" for row in rows))

    async def runs(self, loop: str = "") -> int:
        await self.settled()
        return len(await self.live.runs(loop or self.loop))

    async def event(self) -> dict[str, Any]:
        """The properties of the one event that started a run."""
        await self.settled()
        (run,) = await self.live.runs(self.loop)
        return dict((await self.live.read(lambda c: event_of(c, run["id"])))["properties"])


def event_of(connection: sa.Connection, run_id: str) -> dict[str, Any]:
    from loops.packed import unpack

    join = tables.events.join(tables.runs, tables.runs.c.event_uuid == tables.events.c.uuid)
    query = sa.select(tables.events.c.body).select_from(join).where(tables.runs.c.id == run_id)
    return dict(unpack(connection.execute(query).scalar_one()))


def signature(body: bytes, digest: str = "sha256") -> str:
    return f"{digest}={hmac.new(SECRET.encode(), body, getattr(hashlib, digest)).hexdigest()}"


@pytest_asyncio.fixture(loop_scope="module")
async def hub(service: Running) -> Hub:
    made = Hub(await connect(service), f"acme/{uuid.uuid4().hex[:12]}")
    made.loop = await made.listen()
    return made


# What is no complete payload


async def test_gh_01_what_nobody_sent_is_an_event_of_an_unknown_actor_and_no_writers(hub: Hub) -> None:
    writers = await hub.listen(exact("actor_access", "write"), exact("event_type", "pull_request"))
    pushed = await hub.listen(exact("actor_access", "write"), exact("event_type", "push"))
    closed = without(hub.payload("pull_request__opened", action="closed"), "sender")
    assert (await hub.send(closed, "pull_request"))[0] == 202
    assert (await hub.send(without(hub.payload("push__branch"), "sender"), "push"))[0] == 202
    assert [await hub.runs(loop) for loop in (hub.loop, writers, pushed)] == [2, 0, 1]


@pytest.mark.parametrize("change", ["null", "absent"])
@pytest.mark.parametrize("key", ["installation", "repository", "sender", "comment", "organization"])
async def test_gh_02_any_part_may_be_null_or_absent(hub: Hub, key: str, change: str) -> None:
    payload = hub.payload("issue_comment__created")
    payload = without(payload, key) if change == "absent" else {**payload, key: None}
    assert (await hub.send(payload, "issue_comment"))[0] == 202
    (row,) = await hub.settled()
    assert row["status"] == ("ignored" if key == "repository" else "dispatched"), row["reason"]


@pytest.mark.parametrize("event", ["installation", "installation_repositories"])
async def test_gh_03_what_is_about_an_installation_is_200_and_ignored(hub: Hub, event: str) -> None:
    for action in ("created", "added", "deleted"):
        status, told = await hub.send(fixture("installation__created", action=action), event)
        assert (status, told["status"]) == (200, "ignored")
        assert told["reason"]
    assert {row["status"] for row in await hub.settled()} == {"ignored"}


async def test_gh_04_a_header_that_is_missing_is_400_and_named(hub: Hub) -> None:
    answers = {
        "X-GitHub-Event": await hub.send(hub.payload(), X_GitHub_Event=None),
        "X-GitHub-Delivery": await hub.send(hub.payload(), X_GitHub_Delivery=None),
    }
    for header, (status, told) in answers.items():
        assert (status, told["error"]["code"]) == (400, "delivery.malformed")
        assert header in told["error"]["message"]
    assert await hub.settled() == []


async def test_gh_30_every_payload_is_taken_and_filters_on_what_is_absent_do_not_match(hub: Hub) -> None:
    asking = await hub.listen(exact("sender", "ada"), exact("event_type", "issues"))
    for bare in ({"action": "opened"}, {}, without(hub.payload(), "repository", "sender"), {"issue": 5, "sender": []}):
        assert (await hub.send(bare))[0] == 202
    assert [await hub.runs(loop) for loop in (hub.loop, asking)] == [0, 0]
    assert {row["status"] for row in await hub.settled()} == {"ignored"}


# Bytes


async def test_gh_06_a_body_with_any_characters_is_verified_as_it_is_and_kept_whole(hub: Hub) -> None:
    payload = hub.payload()
    payload["issue"]["title"] = OUTSIDE
    body = json.dumps(payload, ensure_ascii=False).encode()
    assert (await hub.send(body))[0] == 202
    assert (await hub.event())["title"] == OUTSIDE


async def test_gh_08_a_form_holds_the_json_and_is_signed_as_it_is(hub: Hub) -> None:
    payload = hub.payload()
    payload["issue"]["title"] = f"a+b %2B {OUTSIDE} &x=1"
    form = urlencode({"payload": json.dumps(payload, ensure_ascii=False)}).encode()
    assert (await hub.send(form, Content_Type=FORM))[0] == 202
    assert (await hub.event())["title"] == payload["issue"]["title"]
    wrong = signature(json.dumps(payload).encode())  # over the JSON inside
    assert (await hub.send(form, Content_Type=FORM, X_Hub_Signature_256=wrong))[0] == 401


async def test_gh_09_a_ping_is_a_pong_that_is_recorded_and_starts_nothing(hub: Hub) -> None:
    status, told = await hub.send(fixture("ping__hook"), "ping")
    assert (status, told["status"], told["reason"]) == (200, "ignored", "pong")
    (row,) = await hub.settled()
    assert (row["status"], row["reason"], row["name"]) == ("ignored", "pong", "ping")
    forged = await hub.send(fixture("ping__hook"), "ping", X_Hub_Signature_256=signature(b"another body"))
    assert forged[0] == 401


@pytest.mark.parametrize("megabytes", [1, 5, 24])
async def test_gh_10_a_push_of_many_megabytes_is_taken_and_filters_still_hold(hub: Hub, megabytes: int) -> None:
    other = await hub.listen(exact("ref", "refs/heads/elsewhere"), exact("event_type", "push"))
    commit = {"id": "1" * 40, "message": "x" * 1_000_000}
    payload = hub.payload("push__branch", commits=[commit] * megabytes)
    assert (await hub.send(payload, "push"))[0] == 202
    assert [await hub.runs(loop) for loop in (hub.loop, other)] == [1, 0]
    assert len(json.dumps(await hub.event())) < 10_000


async def test_gh_10_what_is_over_the_limit_is_413_however_its_length_is_told(hub: Hub) -> None:
    body = b'{"x": "' + b"x" * LIMIT + b'"}'
    assert (await hub.send(body))[0] == 413

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    async def unmeasured() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "x", "X-Hub-Signature-256": signature(body)}
    try:
        status, told = await hub.post(unmeasured(), headers)
    except aiohttp.ClientError:  # it is answered, and closed, before all of it was sent
        status, told = 413, {"error": {"code": "delivery.too_large"}}
    assert (status, told["error"]["code"]) == (413, "delivery.too_large")
    assert await hub.settled() == []
    assert (await hub.send(hub.payload()))[0] == 202


async def test_gh_11_a_signature_outside_ascii_is_401(hub: Hub) -> None:
    host, port = hub.live.service.address.removeprefix("http://").rsplit(":", 1)
    for header in (b"sha256=\xe9" + b"0" * 63, "sha256=é".encode() + b"0" * 63):
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /hooks/github/{hub.live.hook} HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: issues\r\n".encode()
        head += b"X-GitHub-Delivery: x\r\nX-Hub-Signature-256: " + header
        writer.write(head + b"\r\nContent-Length: 2\r\n\r\n{}")
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 401")
        writer.close()
    assert await hub.settled() == []


async def test_gh_13_sha1_proves_nothing_and_upper_case_is_the_same_digest(hub: Hub) -> None:
    body = json.dumps(hub.payload()).encode()
    sha1, sha256 = signature(body, "sha1"), signature(body)
    assert (await hub.send(body, X_Hub_Signature=sha1, X_Hub_Signature_256="sha256=" + "0" * 64))[0] == 401
    status, told = await hub.send(body, X_Hub_Signature=sha1, X_Hub_Signature_256=None)
    assert status == 401
    assert "SHA-1" in told["error"]["hint"]
    assert await hub.settled() == []
    assert (await hub.send(body, X_Hub_Signature_256="sha256=" + sha256.removeprefix("sha256=").upper()))[0] == 202


async def test_gh_31_what_no_database_stores_is_mended_or_400_and_stops_nobody(hub: Hub) -> None:
    odd = hub.payload()
    odd["issue"] |= {"title": "a\ud800b\0c", "k\0ey": "\udfff"}
    assert (await hub.send(odd))[0] == 202
    assert (await hub.event())["title"] == "a\ufffdb\ufffdc"
    for levels in (201, 2_000, 200_000):
        status, told = await hub.send(b'{"action":' * levels + b"1" + b"}" * levels)
        assert (status, told["error"]["code"]) == (400, "delivery.malformed")
        assert "nests deeper than 200" in told["error"]["message"]
    assert (await hub.send(hub.payload()))[0] == 202
    assert await hub.runs() == 2


# The same thing more than once


async def test_gh_14_a_delivery_that_comes_again_one_by_one_or_all_at_once_is_one_run(hub: Hub) -> None:
    for at_once in (False, True):
        payload, key = hub.payload(), str(uuid.uuid4())
        sending = [hub.send(payload, X_GitHub_Delivery=key) for _ in range(20)]
        answers = await asyncio.gather(*sending) if at_once else [await one for one in sending]
        assert sorted(status for status, _ in answers) == [200] * 19 + [202]
        assert sum(told["status"] == "duplicate" for _, told in answers) == 19
        assert len({told["delivery"] for _, told in answers}) == 1
    assert await hub.runs() == 2


@pytest.mark.parametrize("order", [("opened", "labeled"), ("labeled", "opened")], ids=" then ".join)
async def test_gh_15_gh_25_opening_and_labelling_an_issue_start_a_loop_that_hears_both_once(
    hub: Hub, order: tuple[str, str]
) -> None:
    payload = hub.payload()
    for action in order:
        assert (await hub.send({**payload, "action": action}))[0] == 202
        await asyncio.sleep(0.01)
    assert await hub.runs() == 1
    _, second = await hub.settled()
    (verdict,) = await hub.live.verdicts(second["id"])
    assert (verdict["stage"], verdict["passed"]) == ("claim", False)


async def test_gh_17_a_repository_is_heard_in_whatever_case_it_is_written(hub: Hub) -> None:
    loud = await hub.listen(repository=hub.repository.upper())
    payload = hub.payload()
    payload["repository"]["full_name"] = hub.repository.title()
    assert (await hub.send(payload))[0] == 202
    assert [await hub.runs(loop) for loop in (hub.loop, loud)] == [1, 1]


async def test_gh_27_a_hundred_issues_labelled_within_a_second_are_all_heard_and_queued(hub: Hub) -> None:
    payloads = [hub.payload("issues__labeled_by_another", action="labeled") for _ in range(100)]
    answers = await asyncio.gather(*(hub.send(payload) for payload in payloads))
    assert {status for status, _ in answers} == {202}
    assert {(row["status"], row["runs"]) for row in await hub.settled()} == {("dispatched", 1)}
    assert {run["status"] for run in await hub.live.runs(hub.loop)} == {"queued"}
    assert await hub.runs() == 100


async def test_mq_05_fifty_deliveries_at_once_are_all_taken_and_each_starts_its_run(hub: Hub) -> None:
    async def saved() -> None:  # somebody else writes meanwhile
        for _ in range(5):
            await hub.listen(exact("event_type", "push"))

    saving = asyncio.create_task(saved())
    answers = await asyncio.gather(*(hub.send(hub.payload()) for _ in range(50)))
    await saving
    assert [status for status, _ in answers] == [202] * 50
    assert await hub.runs() == 50
    assert {row["attempts"] for row in await hub.settled()} == {0}


# Where a delivery leads to


@pytest.mark.parametrize("path", ["999999999", "0", "x", "1e3", "99999999999999999999"])
async def test_case_66_a_delivery_for_a_connection_that_is_not_there_is_404_and_leaves_nothing(
    hub: Hub, path: str
) -> None:
    def count(connection: sa.Connection) -> int:
        return connection.execute(sa.select(sa.func.count()).select_from(tables.deliveries)).scalar_one()

    before = await hub.live.read(count)
    body = json.dumps(hub.payload()).encode()
    headers = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "x", "X-Hub-Signature-256": signature(body)}
    url = f"{hub.live.service.url}/hooks/github/{path}"
    async with aiohttp.ClientSession() as client, client.post(url, data=body, headers=headers) as response:
        assert response.status == 404
    assert await hub.live.read(count) == before


async def test_case_67_a_connection_that_was_taken_away_takes_nothing_more(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loops.connections.book._CHECK_SECONDS", -1.0)  # a second, as a rule
    assert (await hub.send(hub.payload()))[0] == 202
    await hub.settled()
    await hub.live.write(lambda connection: connections.delete(connection, PROJECT, hub.live.hook))
    assert (await hub.send(hub.payload()))[0] == 404
    assert (len(await hub.settled()), await hub.runs()) == (1, 1)
