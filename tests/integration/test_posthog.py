"""PostHog over HTTP, with its own SDK where that is what sends, on SQLite and on Postgres."""

import asyncio
import base64
import gzip
import hmac
import io
import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import aiohttp
import posthog
import pytest
import sqlalchemy as sa

from loops.packed import unpack
from loops.store import connections
from loops.store.people import SEEN_AGAIN
from loops.store.people_tables import groups, persons
from loops.store.tables import deliveries, events
from tests.integration.serving import Api, eventually, fresh_project, workflow
from tests.unit.triggers.posthog.test_mutations import CAPTURES, WEBHOOKS, mutated
from triggers.posthog.body import decode

SECRET = "whsec_" + base64.b64encode(b"a key of some bytes").decode()

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = itertools.count(1)


async def capturing(api: Api, **settings: str) -> str:
    """A connection that takes captures; its project API key."""
    key = f"phc_{next(_numbers)}_{uuid.uuid4().hex}"
    await connected(api, api_key=key, **settings)
    return key


async def connected(api: Api, **settings: str) -> str:
    """A PostHog connection; the path of its hook."""
    made = await api.post("integrations", {"kind": "posthog", "name": f"n{next(_numbers)}", "settings": settings})
    assert made["hook_url"].endswith(f"/hooks/posthog/{made['id']}")
    return f"/hooks/posthog/{made['id']}"


async def loop_on(api: Api, event: str | None = "signed_up", step: dict[str, Any] | None = None, **trigger: Any) -> str:
    """An enabled workflow that such an event starts, with another first step if one is given; its id."""
    filters = {"events": [{"id": event, "type": "events"}], **trigger.pop("filters", {})}
    document = workflow(f"flow {next(_numbers)}", {"type": "event", "filters": filters, **trigger})
    if step is not None:
        document["actions"][1] = {"id": "note", "name": "Step", **step}
    return str((await api.post("workflows", document))["id"])


def said(event: str = "signed_up", who: str = "ada", change: Any = None, **more: Any) -> dict[str, Any]:
    """An event; `change` is what is to be set of its person."""
    if change is not None:
        more["$set"] = change
    return {"event": event, "distinct_id": who, "uuid": str(uuid.uuid4()), "properties": {}, **more}


async def post(api: Api, path: str, body: bytes, **headers: str) -> tuple[int, Any, Any]:
    async with api.session.post(path, data=io.BytesIO(body), headers=headers) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if text else None, answer.headers


async def capture(api: Api, key: str, *batch: dict[str, Any]) -> str:
    """Capture a batch; our id of the delivery, once it is settled."""
    known = {one["id"] for one in (await api.get("deliveries"))["items"]}
    status, told, _ = await post(api, "/batch/", json.dumps({"api_key": key, "batch": batch}).encode())
    assert (status, told) == (200, {"status": 1})
    (new,) = [one["id"] for one in (await api.get("deliveries"))["items"] if one["id"] not in known]
    await settled(api, new)
    return str(new)


async def settled(api: Api, delivery: str) -> dict[str, Any]:
    found: dict[str, Any] = await api.until(f"deliveries/{delivery}", lambda one: one["status"] != "accepted")
    return found


async def runs_of(api: Api, flow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("runs", workflow=flow))["items"]
    return found


async def verdict_on(api: Api, delivery: str, flow: str) -> dict[str, Any]:
    (found,) = (await api.get(f"deliveries/{delivery}/verdicts", workflow=flow))["verdicts"]
    return dict(found)


async def stored(api: Api, table: sa.Table) -> list[dict[str, Any]]:
    query = sa.select(table).where(table.c.project_id == api.project).order_by(*table.primary_key.columns)
    return await api.service.services.reader.read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )


def signed(body: bytes, key: str | None = None) -> dict[str, str]:
    key, stamp = key or f"msg_{uuid.uuid4().hex}", str(int(time.time()))
    signature = hmac.digest(b"a key of some bytes", f"{key}.{stamp}.".encode() + body, "sha256")
    return {
        "Content-Type": "application/json",
        "webhook-id": key,
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(signature).decode(),
    }


# The SDK


def sdk(api: Api, key: str, **options: Any) -> tuple[posthog.Posthog, list[Any]]:
    failed: list[Any] = []
    client = posthog.Posthog(
        key, host=api.service.url, on_error=lambda error, batch: failed.append((error, batch)), **options
    )
    return client, failed


@pytest.mark.parametrize(
    "options",
    [{"sync_mode": True}, {"sync_mode": True, "gzip": True}, {"flush_at": 3}, {"gzip": True, "flush_at": 100}],
    ids=["sync", "sync gzip", "batches", "gzip batch"],
)
async def test_an_unmodified_sdk_starts_a_loop_with_each_event_that_it_captures(api: Api, options: Any) -> None:
    key, flow = await capturing(api), await loop_on(api)

    def send() -> list[Any]:
        client, failed = sdk(api, key, **options)
        client.set(distinct_id="ada", properties={"email": "ada@widgets.example"})
        for number in range(5):
            client.capture(
                "signed_up", distinct_id="ada", properties={"sender": f"n{number}"}, groups={"company": "acme"}
            )
        client.capture("another", distinct_id="bob")
        client.group_identify("company", "acme", {"plan": "pro"})
        client.alias("anon", "ada")
        client.shutdown()
        return failed

    assert await asyncio.to_thread(send) == []
    found = await eventually(lambda: runs_of(api, flow), lambda runs: len(runs) == 5)
    assert {run["status"] for run in await eventually(
        lambda: runs_of(api, flow), lambda runs: all(run["finished_at"] for run in runs)
    )} == {"completed"}  # fmt: skip
    assert {run["event"] for run in found} == {"signed_up"}
    assert {one["verified"] for one in (await api.get("deliveries"))["items"]} == {False}
    people = await eventually(lambda: stored(api, persons), lambda rows: len(rows) == 2)
    assert {row["distinct_id"]: row["properties"] for row in people} == {
        "ada": {"email": "ada@widgets.example"},
        "anon": {"email": "ada@widgets.example"},
    }
    (group,) = await stored(api, groups)
    assert (group["type"], group["key"], group["properties"]) == ("company", "acme", {"plan": "pro"})


async def test_the_flags_of_an_sdk_are_none_and_no_error(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    key = await capturing(api)

    def ask() -> tuple[Any, Any]:
        client, failed = sdk(api, key, sync_mode=True)
        flags = client.get_all_flags("ada")
        client.shutdown()
        return flags, failed

    assert await asyncio.to_thread(ask) == ({}, [])
    assert not [record for record in caplog.records if record.name == "posthog"]


async def test_an_sdk_with_a_wrong_key_is_told_so(api: Api) -> None:
    def send() -> list[Any]:
        client, failed = sdk(api, "phc_unknown", flush_at=1, max_retries=0)
        client.capture("signed_up", distinct_id="ada")
        client.shutdown()
        return failed

    ((error, _),) = await asyncio.to_thread(send)
    assert error.status == 401


# Captures


@pytest.mark.parametrize("path", ["/batch/", "/batch", "/i/v0/e/", "/i/v0/e", "/capture/", "/capture", "/e/", "/e"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, base64.b64encode], ids=["plain", "gzip", "base64"])
async def test_every_capture_path_takes_every_form(api: Api, path: str, pack: Callable[[bytes], bytes]) -> None:
    key = await capturing(api)
    status, told, _ = await post(api, path, pack(json.dumps({"api_key": key, **said()}).encode()))
    assert (status, told) == (200, {"status": 1})
    assert [one["event"] for one in (await api.get("deliveries"))["items"]] == ["capture signed_up"]


async def test_a_batch_that_is_sent_again_is_stored_once(api: Api) -> None:
    key, flow = await capturing(api), await loop_on(api)
    batch = [said(), said()]
    delivery = await capture(api, key, *batch)
    again = {"api_key": key, "batch": batch, "sent_at": "2026-11-02T09:00:00Z"}
    assert (await post(api, "/batch/", json.dumps(again).encode()))[:2] == (200, {"status": 1})
    assert [one["id"] for one in (await api.get("deliveries"))["items"]] == [delivery]
    assert len(await runs_of(api, flow)) == 2


async def test_an_event_that_comes_again_in_another_batch_starts_nothing_again(api: Api) -> None:
    key, flow = await capturing(api), await loop_on(api)
    event = said()
    first = await capture(api, key, event)
    second = await capture(api, key, event, said(who="bob"))
    third = await capture(api, key, said("another"), {**event, "properties": {"changed": 1}})
    again = {"api_key": key, **event, "uuid": event["uuid"].upper()}
    assert (await post(api, "/e/", json.dumps(again).encode()))[:2] == (200, {"status": 1})
    assert len(await runs_of(api, flow)) == 2
    reason = f"the same event came before, in delivery {first}"
    assert (await settled(api, second))["runs"] == 1
    assert (await settled(api, third))["runs"] == 0
    told = await api.get(f"deliveries/{second}/verdicts", workflow=flow)
    assert reason in told["note"]
    assert [one["passed"] for one in told["verdicts"]] == [True]


@pytest.mark.parametrize("name", ["$github_event_received", "$scheduled", "$workflow_triggered"])
async def test_a_capture_that_names_an_event_of_loops_is_stored_as_ignored(api: Api, name: str) -> None:
    key, flow = await capturing(api), await loop_on(api, None)
    delivery = await settled(api, await capture(api, key, said(name)))
    assert (delivery["status"], name in delivery["reason"]) == ("ignored", True)
    assert await runs_of(api, flow) == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the body is no JSON"),
        (b"{}", 401, "api_key is missing"),
        (b'{"api_key": "phc_wrong", "batch": 5}', 401, "the api_key is of no connection"),
        (b'{"api_key": 5}', 401, "api_key is missing"),
        (b'{"api_key": "KEY", "batch": 5}', 400, "batch must be a list"),
        (b'{"api_key": "KEY", "batch": [{"event": "x"}]}', 400, "batch[0].distinct_id is missing"),
        (b'{"api_key": "KEY", "distinct_id": "a"}', 400, "event is missing"),
        (gzip.compress(b"[" + b" " * (21 * 1024 * 1024) + b"]"), 413, "the body unpacks to more than"),
        (b"[" + b"1," * 600_000 + b"1]", 413, "the body holds more than"),
    ],
    ids=["empty", "no key", "wrong key", "odd key", "batch", "distinct_id", "event", "bomb", "values"],
)
async def test_a_capture_that_is_refused_is_told_why_in_any_browser(
    api: Api, body: bytes, status: int, message: str
) -> None:
    key = await capturing(api)
    answer, told, headers = await post(api, "/e/", body.replace(b"KEY", key.encode()), Origin="https://widgets.example")
    assert (answer, headers["Access-Control-Allow-Origin"]) == (status, "https://widgets.example")
    assert told["error"]["message"].startswith(message)
    assert (await api.get("deliveries"))["items"] == []


async def test_what_is_over_the_limit_unpacked_is_refused_before_it_is_read(api: Api) -> None:
    status, told, _ = await post(api, "/e/", b" " * (20 * 1024 * 1024 + 1))
    assert (status, told["error"]["code"]) == (413, "delivery.too_large")
    status, told, _ = await post(api, "/e/?compression=lz64", b"x")
    assert (status, told["error"]["message"]) == (400, "compression lz64 is not read")


@pytest.mark.parametrize("size", [10, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
async def test_what_is_large_or_becomes_so_is_read_beside_the_event_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch, size: int, pack: Callable[[bytes], bytes]
) -> None:
    beside: list[bool] = []

    def noting(body: bytes) -> object:
        beside.append(threading.current_thread() is not threading.main_thread())
        return decode(body)

    monkeypatch.setattr("server.api.capture.decode", noting)
    monkeypatch.setattr("triggers.posthog.receive.decode", noting)
    event = said(properties={"text": "a" * size})
    key = f"phc_{uuid.uuid4().hex}"
    hook = await connected(api, api_key=key)
    assert (await post(api, "/batch/", pack(json.dumps({"api_key": key, "batch": [event]}).encode())))[0] == 200
    assert (await post(api, hook, pack(json.dumps({"event": event}).encode())))[0] == 202
    assert beside[:2] == [size > 10, size > 10]


async def test_what_nests_without_end_is_refused_whoever_sends_it(api: Api) -> None:
    nest = b",".join([b"[" * 190 + b"]" * 190] * 13_000)
    body = gzip.compress(b'{"event":{"event":"x","properties":{"a":[' + nest + b"]}}}")
    status, told, _ = await post(api, await connected(api, api_key=f"phc_{uuid.uuid4().hex}"), body)
    assert (status, "values" in told["error"]["message"]) == (413, True)
    status, told, _ = await post(api, "/batch/", body)
    assert (status, "values" in told["error"]["message"]) == (413, True)


async def test_a_connections_key_counts_from_when_it_is_made_until_it_is_gone(api: Api) -> None:
    key = f"phc_{uuid.uuid4().hex}"

    async def status() -> int:
        return (await post(api, "/e/", json.dumps({"api_key": key, **said()}).encode()))[0]

    assert await status() == 401
    made = await api.post("integrations", {"kind": "posthog", "name": "late", "settings": {"api_key": key}})
    assert await eventually(status, lambda found: found == 200)
    await api.call("DELETE", f"integrations/{made['id']}")
    assert await eventually(status, lambda found: found == 401)


async def test_a_connection_whose_secrets_cannot_be_opened_keeps_no_other_from_receiving(api: Api) -> None:
    now = api.service.services.clock.now()

    def put(connection: sa.Connection) -> int:
        return connections.insert(
            connection, project_id=api.project, kind="posthog", name="old", config={}, secrets="damaged", now=now
        )

    number = await api.service.services.writer.run(put)
    try:
        await capture(api, await capturing(api), said())
    finally:
        await api.call("DELETE", f"integrations/{number}")


async def test_two_projects_with_one_key_are_no_fault_and_the_first_receives(
    api: Api, session: aiohttp.ClientSession
) -> None:
    other = await fresh_project(api.service, session)
    key = await capturing(api)
    await other.post("integrations", {"kind": "posthog", "name": "same", "settings": {"api_key": key}})
    await capture(api, key, said())
    assert (await other.get("deliveries"))["items"] == []


# Browsers


@pytest.mark.parametrize("path", ["/batch/", "/i/v0/e/", "/capture/", "/e/", "/flags/", "/decide/", "/s/", "/e"])
async def test_a_browser_of_any_origin_may_send_to_the_paths_of_sdks(api: Api, path: str) -> None:
    asked = {
        "Origin": "https://widgets.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-anything",
    }
    async with api.session.options(path, headers=asked) as answer:
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "https://widgets.example"
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-anything"
        assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    async with api.session.options(path) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("path", ["/api/projects/default/runs", "/hooks/posthog/1", "/live", "/"])
async def test_no_other_path_is_open_to_other_origins(api: Api, path: str) -> None:
    for method in ("OPTIONS", "GET", "POST"):
        async with api.session.request(method, path, headers={"Origin": "https://widgets.example"}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("path", ["/flags/?v=4", "/flags?v=2", "/decide/?v=3", "/ingest/flags/"])
async def test_whoever_asks_for_flags_is_told_of_none(api: Api, path: str) -> None:
    status, told, _ = await post(api, path, b"{}")
    assert (status, told["flags"], told["featureFlags"], told["sessionRecording"]) == (200, {}, {}, False)
    assert told["errorsWhileComputingFlags"] is False


async def test_the_configuration_of_a_page_is_empty_and_recordings_are_dropped(api: Api) -> None:
    async with api.session.get("/array/phc_any/config") as answer:
        assert (answer.status, (await answer.json())["sessionRecording"]) == (200, False)
    async with api.session.get("/array/phc_any/config.js") as answer:
        assert (answer.status, answer.content_type, await answer.text()) == (200, "application/javascript", "")
    assert (await post(api, "/s/", gzip.compress(b"x" * 3_000_000) * 400))[:2] == (200, {"status": 1})
    assert (await api.get("deliveries"))["items"] == []


# Webhook destinations


async def test_a_signed_webhook_is_verified_and_taken_once(api: Api) -> None:
    hook, flow = await connected(api, webhook_secret=SECRET), await loop_on(api)
    body = json.dumps({"event": said(), "person": {"id": "p1", "name": "Ada", "properties": {"plan": "pro"}}}).encode()
    headers = signed(body, "msg_7")
    status, told, _ = await post(api, hook, body, **headers)
    assert (status, told["status"]) == (202, "accepted")
    assert (await post(api, hook, body, **headers))[1]["status"] == "duplicate"
    found = await settled(api, told["delivery"])
    assert (found["verified"], found["runs"], found["key"]) == (True, 1, "msg_7")
    (run,) = await runs_of(api, flow)
    (event,) = [row for row in await stored(api, events) if row["delivery_id"] == told["delivery"]]
    assert (event["uuid"], run["event"]) == (json.loads(body)["event"]["uuid"], "signed_up")
    (person,) = await stored(api, persons)
    assert (person["distinct_id"], person["properties"]) == ("ada", {"plan": "pro"})


async def test_a_connection_with_a_secret_takes_a_shared_one_in_a_header_and_nothing_unsigned(api: Api) -> None:
    hook = await connected(api, webhook_secret="a shared secret", api_key=f"phc_{uuid.uuid4().hex}")
    body = json.dumps({"event": said()}).encode()
    assert (await post(api, hook, body, Authorization="Bearer a shared secret"))[0] == 202
    for headers in ({}, {"Authorization": "Bearer another"}, signed(body), {"webhook-signature": "v1,AAAA"}):
        status, told, _ = await post(api, hook, body, **headers)
        assert (status, told["error"]["code"]) == (401, "delivery.signature")


async def test_an_unsigned_webhook_is_taken_and_is_not_verified_where_no_secret_is_set(api: Api) -> None:
    hook = await connected(api, api_key=f"phc_{uuid.uuid4().hex}")
    status, told, _ = await post(api, hook, json.dumps({"event": said()}).encode())
    assert status == 202
    assert (await settled(api, told["delivery"]))["verified"] is False


# Who may start what


def task(**inputs: Any) -> dict[str, Any]:
    given = {"prompt": "Look into it.", **inputs}
    filled = {key: {"value": value} for key, value in given.items()}
    return {"type": "function", "config": {"template_id": "template-posthog-create-task", "inputs": filled}}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (task(repository="acme/widgets"), "its task works on the repository acme/widgets"),
        (task(posthog_mcp_scopes="full"), "its task has the scopes full"),
    ],
    ids=["repository", "scopes"],
)
async def test_gh_24_an_event_that_anybody_may_send_starts_no_loop_that_may_write(
    api: Api, step: Any, reason: str
) -> None:
    key, hook = await capturing(api), await connected(api, webhook_secret=SECRET)
    flow, reading = await loop_on(api, step=step), await loop_on(api, step=task())
    event = said()
    delivery = await capture(api, key, event)
    verdict = await verdict_on(api, delivery, flow)
    assert (verdict["stage"], verdict["passed"]) == ("unverified", False)
    assert f"note: {reason}" in verdict["reason"]
    assert "allow_unverified" in verdict["reason"]
    assert [len(await runs_of(api, one)) for one in (flow, reading)] == [0, 1]

    # The same event by a signed webhook: it is known now who sent it.
    body = json.dumps({"event": event}).encode()
    _, told, _ = await post(api, hook, body, **signed(body))
    await settled(api, told["delivery"])
    assert [len(await runs_of(api, one)) for one in (flow, reading)] == [1, 1]
    assert (await verdict_on(api, told["delivery"], reading))["stage"] == "claim"


async def test_gh_24_a_loop_may_allow_what_nobody_proved_to_have_sent(api: Api) -> None:
    key = await capturing(api)
    flow = await loop_on(api, step=task(repository="acme/widgets"), allow_unverified=True)
    no = await loop_on(api, step=task(repository="acme/widgets"), allow_unverified=False)
    await capture(api, key, said())
    assert [len(await runs_of(api, one)) for one in (flow, no)] == [1, 0]


# Persons, groups and test accounts


async def test_what_one_event_says_of_its_person_and_group_later_ones_are_told(api: Api) -> None:
    key, flow = await capturing(api, group_types="project, company"), await loop_on(api)
    await capture(api, key, said("$identify", properties={"$set": {"email": "ada@widgets.example"}}))
    await capture(api, key, said("$groupidentify", who="x", properties={
        "$group_type": "company", "$group_key": "acme", "$group_set": {"plan": "pro"}
    }))  # fmt: skip
    delivery = await capture(api, key, said(properties={"$groups": {"company": "acme"}}))
    assert (await verdict_on(api, delivery, flow))["passed"]
    (run,) = await runs_of(api, flow)
    (row,) = [row for row in await stored(api, events) if row["delivery_id"] == delivery]
    event = unpack(row["body"])
    assert event is not None
    assert event["person"]["properties"] == {"email": "ada@widgets.example"}
    assert event["person"]["name"] == "ada@widgets.example"
    company = {"id": "acme", "type": "company", "index": 1, "properties": {"plan": "pro"}}
    assert event["groups"] == {"company": company}
    assert run["delivery"] == delivery


async def test_each_event_of_a_batch_is_told_by_its_name_and_whose_it_is(api: Api) -> None:
    key, name = await capturing(api), f"signed_up_{next(_numbers)}"
    flow = await loop_on(api, name)
    delivery = await capture(api, key, said(name), said(name, "bob"), said("looked"))
    told = (await api.get(f"deliveries/{delivery}/verdicts", workflow=flow))["verdicts"]
    assert [(one["event"], one["distinct_id"]) for one in told] == [(name, "ada"), (name, "bob"), ("looked", "ada")]
    assert [run["what"] for run in await runs_of(api, flow)] == [name, name]
    async with api.session.get(f"/deliveries/{delivery}", headers={"Authorization": f"Bearer {api.token}"}) as answer:
        shown = await answer.text()
    assert f"<bdi>{name}</bdi> (<bdi>bob</bdi>)" in shown


async def test_what_is_worked_out_again_with_a_person_as_it_is_now_says_so_and_never_that_it_started(api: Api) -> None:
    key, name = await capturing(api), f"plan_{next(_numbers)}"
    pro = {"key": "plan", "value": ["pro"], "operator": "exact", "type": "person"}
    for _ in range(21):  # one more than a verdict is stored of
        await loop_on(api, name, filters={"properties": [pro]})
    delivery = await capture(api, key, said(name))
    await capture(api, key, said("$identify", change={"plan": "pro"}))
    told = await api.get(f"deliveries/{delivery}/verdicts")
    assert not any(one["passed"] or one["stage"] == "start" for one in told["verdicts"])
    (again,) = [one for one in told["verdicts"] if one["recomputed"]]
    assert (again["stage"], again["run"]) == ("not_started", None)
    assert again["reason"].startswith(
        "it started nothing when the delivery came; with its person and groups as they are now: every filter passed"
    )
    assert told["note"] == "what is worked out again takes persons and groups as they are now, not as they were"


async def test_a_person_is_remembered_also_where_no_loop_listens(api: Api) -> None:
    key = await capturing(api)
    await capture(api, key, said("$set", change={"a": 1}), said("$set", change={"b": 2}))
    await capture(api, key, said("$set", change={"a": 3}, properties={"$set_once": {"b": 4, "c": 5}}))
    (row,) = await eventually(lambda: stored(api, persons), lambda rows: rows[0]["properties"].get("c"))
    assert row["properties"] == {"a": 3, "b": 2, "c": 5}


async def test_many_captures_at_once_lose_nothing_that_they_say_of_one_person(api: Api) -> None:
    key = await capturing(api)

    async def one(number: int) -> None:
        batch = [
            said("$set", change={f"n{number}": number}),
            said("$set", who=f"other {number}", change={"a": 1}),
        ]
        await post(api, "/batch/", json.dumps({"api_key": key, "batch": batch}).encode())

    await asyncio.gather(*(one(number) for number in range(30)))
    people = await eventually(lambda: stored(api, persons), lambda rows: len(rows) == 31)
    ada = await eventually(lambda: stored(api, persons), lambda rows: len(rows[0]["properties"]) == 30)
    assert ada[0]["distinct_id"] == "ada"
    assert len(people) == 31


async def test_whoever_is_seen_again_is_known_to_have_been(api: Api) -> None:
    key = await capturing(api)
    await loop_on(api)
    await capture(api, key, said(change={"a": 1}))
    long_ago = api.service.services.clock.now() - 2 * SEEN_AGAIN
    await api.service.services.writer.run(
        lambda connection: connection.execute(
            persons.update().where(persons.c.project_id == api.project).values(seen_at=long_ago)
        )
    )
    await capture(api, key, said())
    (row,) = await stored(api, persons)
    assert row["seen_at"] > long_ago + SEEN_AGAIN


async def test_case_74_a_trigger_that_asks_for_it_leaves_test_accounts_out(api: Api) -> None:
    key = await capturing(api)
    flow, plain = await loop_on(api, filters={"filter_test_accounts": True}), await loop_on(api)
    own = {"key": "host", "operator": "icontains", "value": "localhost", "type": "event"}
    await capture(api, key, said(properties={"host": "localhost:3000"}))
    assert [len(await runs_of(api, one)) for one in (flow, plain)] == [1, 1]

    status, _ = await api.call(
        "PUT", "test-account-filters", {"filters": [{**own, "operator": "is_not", "value": "localhost"}]}
    )
    assert status == 200
    delivery = await capture(api, key, said(properties={"host": "localhost"}))
    assert [len(await runs_of(api, one)) for one in (flow, plain)] == [1, 2]
    verdict = await verdict_on(api, delivery, flow)
    assert (verdict["stage"], verdict["passed"]) == ("filters", False)
    assert "host" in verdict["reason"]
    await capture(api, key, said(properties={"host": "widgets.example"}))
    assert [len(await runs_of(api, one)) for one in (flow, plain)] == [2, 3]


async def test_the_filters_of_test_accounts_are_checked_when_they_are_set(api: Api) -> None:
    assert await api.get("test-account-filters") == {"filters": []}
    for filters in ("x", [5], [{"key": "a", "operator": "nope", "value": 1}], [{"key": "a", "value": "b"}] * 101):
        status, error = await api.refused("PUT", "test-account-filters", {"filters": filters})
        assert status == 400
        assert error["path"].startswith("filters")
    good = [{"key": "a", "value": "b", "operator": "is_not", "type": "event"}]
    assert (await api.call("PUT", "test-account-filters", {"filters": good}))[0] == 200
    assert await api.get("test-account-filters") == {"filters": good}


# Whatever is sent


async def test_no_change_of_a_body_is_a_fault_of_ours(api: Api) -> None:
    hook, key = await connected(api, webhook_secret="a shared secret"), await capturing(api)
    await loop_on(api, None)
    told: set[int] = set()
    for seed in range(150):
        body = mutated(CAPTURES[seed % len(CAPTURES)], seed)
        if isinstance(body, dict) and "batch" in body:
            body["api_key"] = key
        raw = json.dumps(body).encode()
        status, answer, _ = await post(api, "/batch/?token=" + key, gzip.compress(raw) if seed % 2 else raw)
        told.add(status)
        assert status == 200 or (answer["error"]["message"] and status in {400, 401}), answer
        raw = json.dumps(mutated(WEBHOOKS[seed % len(WEBHOOKS)], seed)).encode()
        status, answer, _ = await post(api, hook, raw, Authorization="a shared secret")
        assert status in {200, 202, 400}, answer
    assert told == {200, 400, 401}
    await eventually(
        lambda: api.get("deliveries", limit=200),
        lambda listed: all(one["status"] not in {"accepted", "quarantined"} for one in listed["items"]),
    )


# Cases that PostHog's tests pin


@pytest.mark.parametrize(
    ("filters", "starts"),
    [
        pytest.param({"events": []}, True, id="case-71"),
        pytest.param({"events": [{"id": None, "type": "events"}]}, True, id="case-72"),
        pytest.param(
            {"properties": [{"key": "foo.bar", "value": "baz", "operator": "exact", "type": "event"}]},
            True,
            id="case-77",
        ),
        pytest.param(
            {"properties": [{"key": "foo.nested", "value": "x", "operator": "exact", "type": "event"}]},
            False,
            id="case-78",
        ),
        pytest.param(
            {"events": [{"id": "other"}, {"id": "signed_up", "properties": [{"key": "foo.bar", "value": "baz"}]}]},
            True,
            id="case-79",
        ),
        pytest.param({"events": [{"id": "other", "type": "events"}]}, False, id="case-81"),
        pytest.param({"events": [{"id": "signed_up", "type": "events"}]}, True, id="case-82"),
        pytest.param({"events": [], "bytecode": ["_H", 1, 29]}, True, id="case-84"),
    ],
)
async def test_cases_of_posthogs_filters(api: Api, filters: Any, starts: bool) -> None:
    key, flow = await capturing(api), await loop_on(api, filters=filters)
    await capture(api, key, said(properties={"foo.bar": "baz", "foo": {"nested": "x"}}))
    assert len(await runs_of(api, flow)) == int(starts)


async def test_nothing_of_a_capture_is_lost_when_it_is_read_from_the_database(api: Api) -> None:
    key = await capturing(api)
    delivery = await capture(api, key, said(properties={"a": "☃"}))
    (row,) = [row for row in await stored(api, deliveries) if row["id"] == delivery]
    assert json.loads(row["headers"]).keys() <= {"content-type", "content-encoding", "user-agent"}
    assert (row["name"], row["verified"]) == ("capture signed_up", False)
