"""Deliveries that are played again, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from loops.store.tables import deliveries, events, runs
from tests.integration.running import issue
from tests.integration.serving import Api, fresh_token, listening, workflow
from tests.integration.test_webhooks import hooked, send
from triggers.run_ids import run_id

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def loop(api: Api, action: str = "opened", **more: Any) -> str:
    """A workflow that an issue starts; its id."""
    return str((await api.post("workflows", listening(f"loop {uuid.uuid4().hex}", action, **more)))["id"])


async def replay(api: Api, delivery: str, flow: str | None = None) -> tuple[int, Any]:
    status, told = await api.call("POST", f"deliveries/{delivery}/replay", {} if flow is None else {"workflow": flow})
    return status, told["items"] if status < 300 else told["error"]


async def runs_of(api: Api, flow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("runs", workflow=flow))["items"]
    return sorted(found, key=lambda run: int(run["replay"]))


async def verdicts_of(api: Api, delivery: str, flow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(f"deliveries/{delivery}/verdicts", workflow=flow))["verdicts"]
    return found


async def missed(api: Api, flow: str, **body: Any) -> dict[str, Any]:
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    told: dict[str, Any] = await api.post(f"workflows/{flow}/replay", {"since": since, **body})
    return told


async def change(api: Api, statement: sa.Executable) -> None:
    await api.service.services.writer.run(lambda connection: connection.execute(statement) and None)


async def test_a_replay_is_a_run_of_its_own_with_a_number_and_says_so(api: Api) -> None:
    flow = await loop(api)
    delivery = await api.deliver(await api.github(), "issues", issue())
    for number in (1, 2):
        status, (told,) = await replay(api, delivery, flow)
        assert (status, told["passed"], told["replay"]) == (202, True, number)
        assert told["reason"] == f"replay {number}: every filter passed; not asked: claim"
    first, *again = await runs_of(api, flow)
    assert [run["replay"] for run in (first, *again)] == [0, 1, 2]
    assert {run["event_uuid"] for run in again} == {first["event_uuid"]}
    assert {run["delivery"] for run in again} == {delivery}
    stored = await verdicts_of(api, delivery, flow)
    assert [one["run"] for one in stored] == [first["id"], *(run["id"] for run in again)]
    told = await api.get(f"deliveries/{delivery}")
    assert (told["status"], told["reason"], told["runs"]) == ("dispatched", "2 runs started by replays", 3)
    await api.until(f"runs/{again[-1]['id']}", lambda run: run["status"] == "completed")


async def test_a_runs_id_follows_from_event_workflow_and_number(api: Api) -> None:
    flow = await loop(api)
    delivery = await api.deliver(await api.github(), "issues", issue())
    _, (told,) = await replay(api, delivery, flow)
    event = await api.service.services.reader.read(
        lambda connection: (
            connection.execute(sa.select(events).where(events.c.delivery_id == delivery)).mappings().one()
        )
    )

    class Named:
        source, uuid = event["source"], event["uuid"]

    assert told["run"] == run_id(Named, api.project, flow, 1)  # type: ignore[arg-type]  # only these two count


async def test_a_loop_that_was_enabled_later_gets_what_it_missed_by_a_replay(api: Api) -> None:
    delivery = await api.deliver(await api.github(), "issues", issue())
    flow = await loop(api)
    assert await runs_of(api, flow) == []
    assert (await replay(api, delivery, flow))[0] == 202
    (run,) = await runs_of(api, flow)
    assert run["replay"] == 1
    told = await api.get(f"deliveries/{delivery}")
    said = "no loop listens for it, 1 run started by a replay"
    assert (told["status"], told["reason"], told["runs"]) == ("dispatched", said, 1)


async def test_filters_hold_for_a_replay_and_the_reason_is_told(api: Api) -> None:
    flow = await loop(api, "closed")
    delivery = await api.deliver(await api.github(), "issues", issue())
    status, (told,) = await replay(api, delivery, flow)
    assert (status, told["passed"], told["stage"], told["run"]) == (200, False, "filters", None)
    assert "closed" in told["reason"]
    assert await runs_of(api, flow) == []


async def test_the_definition_of_now_decides_and_runs(api: Api) -> None:
    flow = await loop(api, "closed")
    delivery = await api.deliver(await api.github(), "issues", issue())
    assert (await api.call("PUT", f"workflows/{flow}", listening("mended")))[0] == 200
    status, (told,) = await replay(api, delivery, flow)
    assert (status, told["version"]) == (202, 2)


async def test_without_a_workflow_every_loop_that_it_passes_starts_again(api: Api) -> None:
    wanted, unwanted = [await loop(api), await loop(api)], await loop(api, "closed")
    delivery = await api.deliver(await api.github(), "issues", issue())
    status, told = await replay(api, delivery)
    assert status == 202
    assert {one["workflow"] for one in told} == set(wanted)
    for flow in wanted:
        assert [run["replay"] for run in await runs_of(api, flow)] == [0, 1]
    assert await runs_of(api, unwanted) == []


async def test_a_fact_that_was_told_twice_can_be_played_again(api: Api) -> None:
    flow, hook, fact = await loop(api), await api.github(), issue(node_id="I_same")
    await api.deliver(hook, "issues", fact)
    delivery = await api.deliver(hook, "issues", fact)
    (verdict,) = await verdicts_of(api, delivery, flow)
    assert verdict["stage"] == "claim"
    assert (await replay(api, delivery, flow))[0] == 202
    assert [one["stage"] for one in await verdicts_of(api, delivery, flow)] == ["claim", "start"]


async def test_the_senders_id_names_a_delivery_as_well(api: Api) -> None:
    flow, key = await loop(api), str(uuid.uuid4())
    await api.deliver(await api.github(), "issues", issue(), key)
    assert (await replay(api, key, flow))[0] == 202


async def test_an_id_of_the_senders_that_several_deliveries_bear_names_none_of_them(api: Api) -> None:
    flow, key = await loop(api), str(uuid.uuid4())
    ours = await api.deliver(await api.github(), "issues", issue(), key)
    stranger = await hooked(api)
    _, told = await send(api, stranger["path"], Idempotency_Key=key)
    await api.until(f"deliveries/{told['delivery']}", lambda one: one["status"] == "dispatched")
    for call in (
        api.call("POST", f"deliveries/{key}/replay", {}),
        api.call("GET", f"deliveries/{key}/verdicts"),
        api.call("GET", f"deliveries/{key}"),
        api.call("GET", f"runs?delivery={key}"),
    ):
        status, refused = await call
        assert (status, refused["error"]["message"]) == (409, f"2 deliveries bear the sender's id {key!r}")
        assert f"{told['delivery']} (from webhook), {ours} (from github)" in refused["error"]["hint"]
    status, items = await replay(api, f"github:{key}", flow)
    assert (status, items[0]["delivery"]) == (202, ours)
    assert (await api.get(f"deliveries/webhook:{key}"))["id"] == told["delivery"]
    # Nor does a key that is our id, or all of what names a source, take the place of what it copies.
    for copied in (ours, f"github:{key}"):
        await send(api, stranger["path"], Idempotency_Key=copied)
    assert (await api.get(f"deliveries/{ours}"))["id"] == ours
    assert (await replay(api, f"github:{key}", flow))[0] == 409


async def test_a_run_of_a_replay_sees_the_event_as_it_was_stored(api: Api) -> None:
    flow = await loop(api)
    delivery = await api.deliver(await api.github(), "issues", issue(title="As it was"))
    _, (told,) = await replay(api, delivery, flow)
    first, _ = await runs_of(api, flow)
    exported = [await api.get(f"runs/{one}/export") for one in (first["id"], told["run"])]
    assert exported[0]["event"] == exported[1]["event"]


async def test_a_webhook_is_played_again_for_its_own_workflow_alone(api: Api) -> None:
    flow, other = await hooked(api), await hooked(api)
    _, told = await send(api, flow["path"])
    await api.until(f"deliveries/{told['delivery']}", lambda one: one["status"] == "dispatched")
    status, items = await replay(api, told["delivery"])
    assert (status, [one["workflow"] for one in items]) == (202, [flow["id"]])
    status, (stopped,) = await replay(api, told["delivery"], other["id"])
    assert (status, stopped["stage"]) == (200, "trigger")
    assert [run["replay"] for run in await runs_of(api, flow["id"])] == [0, 1]


async def test_unproved_events_start_no_loop_that_writes_by_a_replay_either(api: Api) -> None:
    flow = await hooked(api)
    document = {key: flow[key] for key in ("name", "actions", "edges")}
    inputs = {"prompt": {"value": "Do it"}, "repository": {"value": "acme/widgets"}}
    task = {"template_id": "template-posthog-create-task", "inputs": inputs}
    document["actions"][1] = {"id": "note", "name": "Work", "type": "function", "config": task}
    assert (await api.call("PUT", f"workflows/{flow['id']}", document))[0] == 200
    _, sent = await send(api, flow["path"])
    await api.until(f"deliveries/{sent['delivery']}", lambda one: one["status"] != "accepted")
    status, (told,) = await replay(api, sent["delivery"], flow["id"])
    assert (status, told["stage"], told["run"]) == (200, "unverified", None)
    assert await replay(api, sent["delivery"]) == (200, [])
    assert (await missed(api, flow["id"]))["items"] == []
    document["actions"][0] = {**document["actions"][0], "config": {**document["actions"][0]["config"]}}
    document["actions"][0]["config"]["allow_unverified"] = True
    assert (await api.call("PUT", f"workflows/{flow['id']}", document))[0] == 200
    status, (told,) = await replay(api, sent["delivery"], flow["id"])
    assert (status, told["stage"], told["run"] is not None) == (202, "start", True)


async def test_what_ran_while_its_loop_was_harmless_is_not_played_again_once_it_writes(api: Api) -> None:
    flow = await hooked(api)
    _, sent = await send(api, flow["path"])
    await api.until(f"deliveries/{sent['delivery']}", lambda one: one["status"] == "dispatched")
    document = {key: flow[key] for key in ("name", "actions", "edges")}
    task = {"template_id": "template-posthog-create-task", "inputs": {"prompt": {"value": "Do"}}}
    task["inputs"]["repository"] = {"value": "acme/widgets"}  # type: ignore[index]
    document["actions"][1] = {"id": "note", "name": "Work", "type": "function", "config": task}
    assert (await api.call("PUT", f"workflows/{flow['id']}", document))[0] == 200
    status, (told,) = await replay(api, sent["delivery"], flow["id"])
    assert (status, told["stage"], told["run"]) == (200, "unverified", None)
    assert [run["replay"] for run in await runs_of(api, flow["id"])] == [0]


async def test_own_output_starts_nothing_by_a_replay_either(api: Api) -> None:
    flow = await loop(api)
    settings = {"webhook_secret": "a webhook secret", "app_slug": "loops"}
    made = await api.post("integrations", {"kind": "github", "name": "own", "settings": settings})
    own = {**issue(), "sender": {"login": "loops[bot]", "type": "Bot"}}
    delivery = await api.deliver(f"/hooks/github/{made['id']}", "issues", own)
    status, (told,) = await replay(api, delivery, flow)
    assert (status, told["stage"]) == (200, "own_output")


async def test_what_cannot_be_played_again_is_a_409_with_its_reason(api: Api) -> None:
    flow, draft = await loop(api), await loop(api, status="draft")
    hook = await api.github()
    delivery = await api.deliver(hook, "issues", issue())
    status, error = await replay(api, delivery, draft)
    assert (status, "not active" in error["message"]) == (409, True)
    ping = await api.deliver(hook, "ping", {"zen": "Keep it simple.", "hook_id": 1})
    status, error = await replay(api, ping, flow)
    assert (status, "means no event" in error["message"]) == (409, True)
    await change(api, deliveries.update().where(deliveries.c.id == delivery).values(body=None, headers=None))
    status, error = await replay(api, delivery, flow)
    assert (status, "retention removed it" in error["message"]) == (409, True)
    later = datetime.now(UTC) + timedelta(days=1)
    await change(
        api, deliveries.update().where(deliveries.c.id == ping).values(status="accepted", next_attempt_at=later)
    )
    status, error = await replay(api, ping, flow)
    assert (status, "waits to be held" in error["message"]) == (409, True)
    assert (await replay(api, "unknown", flow))[0] == 404


async def test_two_replays_at_once_get_the_numbers_one_and_two(api: Api) -> None:
    flow = await loop(api)
    delivery = await api.deliver(await api.github(), "issues", issue())
    told = await asyncio.gather(*(replay(api, delivery, flow) for _ in range(8)))
    assert sorted(items[0]["replay"] for _, items in told) == list(range(1, 9))
    assert [run["replay"] for run in await runs_of(api, flow)] == list(range(9))
    assert len(await verdicts_of(api, delivery, flow)) == 9


async def test_a_viewer_plays_nothing_again(api: Api) -> None:
    flow = await loop(api)
    delivery = await api.deliver(await api.github(), "issues", issue())
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert (await replay(viewer, delivery, flow))[0] == 403


# All that was missed in a period


async def test_what_a_loop_missed_in_a_period_starts_once_and_only_that(api: Api) -> None:
    hook = await api.github()
    early = [await api.deliver(hook, "issues", issue(number=number)) for number in (1, 2)]
    await api.deliver(hook, "issues", {**issue(), "action": "closed"})
    flow = await loop(api)
    await api.deliver(hook, "issues", issue(number=3))
    told = await missed(api, flow)
    assert [one["delivery"] for one in told["items"]] == early
    assert (told["looked_at"], told["next"]) == (4, None)
    assert [run["replay"] for run in await runs_of(api, flow)] == [0, 1, 1]
    assert (await missed(api, flow))["items"] == []


async def test_a_period_at_both_ends_is_what_was_asked_for(api: Api) -> None:
    delivery = await api.deliver(await api.github(), "issues", issue())
    flow = await loop(api)
    at = datetime.fromisoformat((await api.get(f"deliveries/{delivery}"))["received_at"])
    micro = timedelta(microseconds=1)
    for since, until in ((at + micro, at + timedelta(hours=1)), (at - timedelta(hours=1), at)):
        told = await missed(api, flow, since=since.isoformat(), until=until.isoformat())
        assert told["items"] == []
    told = await missed(api, flow, since=at.isoformat(), until=(at + micro).isoformat())
    assert [one["delivery"] for one in told["items"]] == [delivery]


async def test_what_was_held_back_on_purpose_was_not_missed(api: Api) -> None:
    hook, fact = await api.github(), issue(node_id="I_twice")
    flow = await loop(api)
    for _ in range(2):
        await api.deliver(hook, "issues", fact)
    masked = await api.deliver(hook, "issues", issue())
    verdict = {"workflow": flow, "version": 1, "stage": "mask", "passed": False, "reason": "", "compared": []}
    await change(api, events.update().where(events.c.delivery_id == masked).values(verdicts=[verdict]))
    await change(api, runs.delete().where(runs.c.delivery_id == masked))
    assert (await missed(api, flow))["items"] == []


async def test_of_a_fact_that_was_told_twice_one_was_missed(api: Api) -> None:
    hook, fact = await api.github(), issue(node_id="I_again")
    for _ in range(2):
        await api.deliver(hook, "issues", fact)
    flow = await loop(api)
    assert len((await missed(api, flow))["items"]) == 1


async def test_a_long_period_is_done_in_parts(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.replay.PAGE", 2)
    hook = await api.github()
    sent = [await api.deliver(hook, "issues", issue(number=number)) for number in range(5)]
    flow = await loop(api)
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        part = await missed(api, flow, cursor=cursor)
        found += [one["delivery"] for one in part["items"]]
        cursor = part["next"]
    assert found == sent


async def test_a_workflow_that_webhooks_start_gets_what_it_missed_as_a_draft(api: Api) -> None:
    flow, other = await hooked(api, status="draft"), await hooked(api, status="draft")
    for one in (flow, other):
        _, told = await send(api, one["path"])
        await api.until(f"deliveries/{told['delivery']}", lambda row: row["status"] == "ignored")
    assert (await api.call("POST", f"workflows/{flow['id']}/enable", {}))[0] == 200
    told = await missed(api, flow["id"])
    assert [one["workflow"] for one in told["items"]] == [flow["id"]]
    assert told["looked_at"] == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-11-02T09:00:00"}, "since"),
        ({"since": "2026-11-02T09:00:00Z", "until": 5}, "until"),
        ({"since": "2026-11-02T09:00:00Z", "until": "2026-11-02T09:00:00Z"}, "since"),
        ({"since": "2026-11-02T09:00:00Z", "cursor": []}, "cursor"),
    ],
)
async def test_a_period_that_is_none_is_refused(api: Api, body: Mapping[str, Any], path: str) -> None:
    flow = await loop(api)
    status, error = await api.refused("POST", f"workflows/{flow}/replay", body)
    assert (status, error["path"]) == (400, path)


async def test_a_workflow_that_no_delivery_starts_missed_none(api: Api) -> None:
    flow = str((await api.post("workflows", workflow(f"m {uuid.uuid4().hex}", {"type": "manual"})))["id"])
    since = {"since": "2026-11-02T09:00:00Z"}
    status, error = await api.refused("POST", f"workflows/{flow}/replay", since)
    assert (status, "loops run" in error["hint"]) == (409, True)
