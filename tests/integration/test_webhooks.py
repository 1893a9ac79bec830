"""Requests to the addresses of workflows, over HTTP, on SQLite and on Postgres."""

import asyncio
import hmac
import io
import json
import logging
import time
import uuid
from base64 import b64encode
from typing import Any

import pytest

from tests.integration.serving import Api, fresh_token, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = {"event": "order_paid", "distinct_id": "ada", "total": 12.5}
SECRET = "a secret of some length"


async def hooked(api: Api, wait: str | None = None, *, status: str = "active", **trigger: Any) -> dict[str, Any]:
    """A workflow that a webhook starts, with its address."""
    inputs = {"event": "{request.body.event}", "distinct_id": "{request.body.distinct_id}", **trigger.pop("inputs", {})}
    config = {"type": "webhook", "inputs": {name: {"value": value} for name, value in inputs.items()}, **trigger}
    made = await api.post("workflows", workflow(f"hook {uuid.uuid4().hex}", config, wait, status=status))
    return {**made, **await address(api, made["id"])}


async def address(api: Api, flow: str) -> dict[str, Any]:
    found: dict[str, Any] = await api.get(f"workflows/{flow}/webhook")
    found["path"] = found["url"].removeprefix(api.service.url)
    assert found["path"].startswith("/hooks/in/")
    return found


async def send(
    api: Api, path: str, body: Any = ORDER, *, method: str = "POST", raw: bytes | None = None, **headers: str
) -> tuple[int, Any]:
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = raw if raw is not None else json.dumps(body).encode()
    async with api.session.request(method, path, data=io.BytesIO(content), headers=sent) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if text else None


async def settled(api: Api, delivery: str) -> dict[str, Any]:
    found: dict[str, Any] = await api.until(f"deliveries/{delivery}", lambda one: one["status"] != "accepted")
    return found


async def runs_of(api: Api, flow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("runs", workflow=flow))["items"]
    return found


async def test_a_request_starts_its_workflow_and_no_other_with_its_event(api: Api) -> None:
    flow, other = await hooked(api), await hooked(api)
    status, told = await send(api, flow["path"] + "?campaign=spring")
    assert (status, told["status"]) == (202, "accepted")
    delivery = await settled(api, told["delivery"])
    assert (delivery["status"], delivery["event"], delivery["source"]) == ("dispatched", "order_paid", "webhook")
    (run,) = await runs_of(api, flow["id"])
    assert (run["event"], run["delivery"]) == ("order_paid", told["delivery"])
    assert await runs_of(api, other["id"]) == []
    exported = await api.get(f"runs/{run['id']}/export")
    assert exported["event"]["properties"] == {**ORDER, "campaign": "spring"}
    (verdict,) = (await api.get(f"deliveries/{told['delivery']}/verdicts", workflow=other["id"]))["verdicts"]
    assert (verdict["stage"], verdict["passed"]) == ("trigger", False)
    assert "its own address" in verdict["reason"]


async def test_the_same_delivery_twice_is_one_run_and_says_so(api: Api) -> None:
    flow = await hooked(api)
    key = uuid.uuid4().hex
    first, second = [await send(api, flow["path"], Idempotency_Key=key) for _ in range(2)]
    assert (first[0], second[0]) == (202, 200)
    assert (second[1]["status"], second[1]["delivery"]) == ("duplicate", first[1]["delivery"])
    await settled(api, first[1]["delivery"])
    assert len(await runs_of(api, flow["id"])) == 1


async def test_without_an_id_of_the_senders_each_request_is_a_run(api: Api) -> None:
    flow = await hooked(api)
    for _ in range(2):
        await settled(api, (await send(api, flow["path"]))[1]["delivery"])
    assert len(await runs_of(api, flow["id"])) == 2


async def test_ten_at_once_with_one_id_are_one_run(api: Api) -> None:
    flow = await hooked(api)
    key = uuid.uuid4().hex
    told = await asyncio.gather(*(send(api, flow["path"], Idempotency_Key=key) for _ in range(10)))
    assert sorted(status for status, _ in told) == [200] * 9 + [202]
    await settled(api, told[0][1]["delivery"])
    assert len(await runs_of(api, flow["id"])) == 1


async def test_an_empty_event_is_refused_and_nothing_is_stored(api: Api) -> None:
    flow = await hooked(api)
    before = (await api.get("deliveries"))["items"]
    status, told = await send(api, flow["path"], {"distinct_id": "ada"})
    assert status == 400
    assert told["error"]["message"] == "event is empty"
    assert (await api.get("deliveries"))["items"] == before


@pytest.mark.parametrize("token", ["x", "1", "1-", "1-guessed", "999999999-x", "-", "²-x", "0" * 40, "1-%00"])
async def test_an_address_that_nobody_gave_is_404_in_one_and_the_same_words(api: Api, token: str) -> None:
    status, told = await send(api, f"/hooks/in/{token}")
    assert (status, told["error"]["message"]) == (404, "there is no such webhook")
    assert "loops webhook WORKFLOW" in told["error"]["hint"]


async def test_the_number_of_another_kind_of_connection_is_no_address(api: Api) -> None:
    number = (await api.github()).rpartition("/")[2]
    assert (await send(api, f"/hooks/in/{number}-x"))[0] == 404
    flow = await hooked(api)
    async with api.session.post(f"/hooks/webhook/{flow['connection']}", data=b"{}") as answer:
        assert answer.status == 404


async def test_a_rotated_address_is_void_and_the_new_one_works(api: Api) -> None:
    flow = await hooked(api)
    assert (await send(api, flow["path"]))[0] == 202
    new = await api.post(f"workflows/{flow['id']}/webhook/rotate")
    assert new["url"] != flow["url"]
    assert await api.get(f"workflows/{flow['id']}/webhook") == new
    # What a process has opened, it looks after once a second.
    await asyncio.sleep(1.1)
    assert (await send(api, flow["path"]))[0] == 404
    assert (await send(api, new["url"].removeprefix(api.service.url)))[0] == 202


async def test_the_address_stays_when_the_workflow_is_changed_and_its_templates_count_anew(api: Api) -> None:
    flow = await hooked(api)
    document = {key: flow[key] for key in ("name", "actions", "edges")}
    document["actions"][0]["config"]["inputs"]["event"]["value"] = "fixed_name"
    status, _ = await api.call("PUT", f"workflows/{flow['id']}", document)
    assert status == 200
    assert (await address(api, flow["id"]))["path"] == flow["path"]
    await asyncio.sleep(1.1)
    _, told = await send(api, flow["path"], {"distinct_id": "ada"})
    assert (await settled(api, told["delivery"]))["event"] == "fixed_name"


async def test_an_archived_workflow_has_no_address(api: Api) -> None:
    flow = await hooked(api)
    assert (await api.call("DELETE", f"workflows/{flow['id']}"))[0] == 200
    await asyncio.sleep(1.1)
    assert (await send(api, flow["path"]))[0] == 404
    status, error = await api.refused("GET", f"workflows/{flow['id']}/webhook")
    assert (status, error["code"]) == (409, "store.conflict")


async def test_a_draft_takes_requests_and_says_why_nothing_starts(api: Api) -> None:
    flow = await hooked(api, status="draft")
    status, told = await send(api, flow["path"])
    assert status == 202
    delivery = await settled(api, told["delivery"])
    assert (delivery["status"], delivery["reason"]) == ("ignored", "the workflow of this webhook is not enabled")
    (verdict,) = (await api.get(f"deliveries/{told['delivery']}/verdicts", workflow=flow["id"]))["verdicts"]
    assert (verdict["stage"], verdict["passed"]) == ("enabled", False)


async def test_only_editors_see_the_address_and_no_list_shows_it(api: Api) -> None:
    flow = await hooked(api)
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert (await viewer.refused("GET", f"workflows/{flow['id']}/webhook"))[0] == 403
    token = flow["path"].rpartition("/")[2]
    for path in ("integrations", "workflows", f"workflows/{flow['id']}"):
        assert token not in json.dumps(await viewer.get(path))
    (listed,) = (await viewer.get("integrations", kind="webhook"))["items"]
    assert (listed["hook_url"], listed["secrets"], listed["config"]) == (None, [], {"workflow": flow["id"]})


async def test_with_a_secret_a_sender_has_to_prove_itself_and_the_event_is_verified(api: Api) -> None:
    flow = await hooked(api)
    body = {"settings": {"webhook_secret": SECRET}}
    status, changed = await api.call("PATCH", f"integrations/{flow['connection']}", body)
    assert (status, changed["secrets"]) == (200, ["webhook_secret"])
    assert await address(api, flow["id"]) == {**await address(api, flow["id"]), "path": flow["path"], "verified": True}
    await asyncio.sleep(1.1)
    raw = json.dumps(ORDER).encode()
    signature = "sha256=" + hmac.digest(SECRET.encode(), raw, "sha256").hex()
    assert (await send(api, flow["path"], raw=raw))[0] == 401
    assert (await send(api, flow["path"], raw=raw + b" ", X_Hub_Signature_256=signature))[0] == 401
    status, told = await send(api, flow["path"], raw=raw, X_Hub_Signature_256=signature)
    assert status == 202
    assert (await settled(api, told["delivery"]))["verified"]
    # Where the id is signed, no other header makes the request another one.
    stamp = f"{time.time():.0f}"
    digest = hmac.digest(SECRET.encode(), f"msg_1.{stamp}.".encode() + raw, "sha256")
    signed = {
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
    first, again = [await send(api, flow["path"], raw=raw, **signed, Idempotency_Key=key) for key in ("a", "b")]
    assert (first[0], again[0], again[1]["delivery"]) == (202, 200, first[1]["delivery"])
    assert (await settled(api, first[1]["delivery"]))["runs"] == 1


async def test_what_belongs_to_the_webhook_itself_cannot_be_set_as_a_setting(api: Api) -> None:
    flow = await hooked(api)
    for name in ("token", "workflow", "trigger"):
        changes = {"settings": {name: "mine"}}
        assert (await api.refused("PATCH", f"integrations/{flow['connection']}", changes))[0] == 400
    status, error = await api.refused("POST", "integrations", {"kind": "webhook", "name": "x", "settings": {}})
    assert (status, error["path"]) == (400, "kind")


def writing(document: dict[str, Any]) -> dict[str, Any]:
    """The workflow with a task that works on a repository."""
    inputs = {"prompt": {"value": "Do it"}, "repository": {"value": "acme/widgets"}}
    task = {"template_id": "template-posthog-create-task", "inputs": inputs}
    document["actions"][1] = {"id": "note", "name": "Work", "type": "function", "config": task}
    return document


async def test_unproved_requests_start_only_workflows_that_cannot_write_unless_they_allow_it(api: Api) -> None:
    flow, open_flow = await hooked(api), await hooked(api, allow_unverified=True)
    for one in (flow, open_flow):
        document = writing({key: one[key] for key in ("name", "actions", "edges")})
        assert (await api.call("PUT", f"workflows/{one['id']}", document))[0] == 200
    _, told = await send(api, flow["path"])
    await settled(api, told["delivery"])
    (verdict,) = (await api.get(f"deliveries/{told['delivery']}/verdicts", workflow=flow["id"]))["verdicts"]
    assert (verdict["stage"], verdict["passed"]) == ("unverified", False)
    _, told = await send(api, open_flow["path"])
    assert (await settled(api, told["delivery"]))["runs"] == 1


async def test_a_body_cannot_say_that_it_is_our_own_output(api: Api) -> None:
    flow = await hooked(api)
    _, told = await send(api, flow["path"], {**ORDER, "own_app": True})
    assert (await settled(api, told["delivery"]))["runs"] == 1


async def test_another_method_is_405_and_says_which_one_is_taken(api: Api) -> None:
    flow = await hooked(api, inputs={"method": "PUT"})
    async with api.session.post(flow["path"], data=b"{}") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "PUT")
    assert (await send(api, flow["path"], method="PUT"))[0] == 202


async def test_a_get_may_be_an_event_of_its_query(api: Api) -> None:
    inputs = {"event": "{request.query.name}", "distinct_id": "{request.query.who}", "method": "GET"}
    flow = await hooked(api, inputs=inputs)
    async with api.session.get(flow["path"], params={"name": "pinged", "who": "7"}) as answer:
        assert answer.status == 202
        told = await answer.json()
    assert (await settled(api, told["delivery"]))["event"] == "pinged"


async def test_more_than_a_megabyte_is_too_large(api: Api) -> None:
    flow = await hooked(api)
    fits = json.dumps({**ORDER, "x": "y" * 900_000}).encode()
    assert (await send(api, flow["path"], raw=fits))[0] == 202
    assert (await send(api, flow["path"], raw=b" " * (1024 * 1024 + 1)))[0] == 413


async def test_debug_answers_with_the_event(api: Api) -> None:
    flow = await hooked(api, inputs={"debug": True})
    _, told = await send(api, flow["path"])
    assert (told["event"], told["distinct_id"]) == ("order_paid", "ada")


async def test_an_event_of_ours_is_stored_as_ignored(api: Api) -> None:
    flow = await hooked(api)
    status, told = await send(api, flow["path"], {**ORDER, "event": "$slack_message_received"})
    assert (status, told["status"]) == (200, "ignored")
    assert await runs_of(api, flow["id"]) == []


async def test_a_refusal_is_logged_without_the_token(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    flow = await hooked(api)
    with caplog.at_level(logging.DEBUG):
        assert (await send(api, flow["path"], {}))[0] == 400
    token = flow["path"].rpartition("/")[2]
    (line,) = [one for one in caplog.records if one.name == "loops.hooks"]
    assert line.__dict__["connection"] == flow["connection"]
    assert not [one for one in caplog.records if token in str(one.__dict__)]


async def test_twelve_saves_at_once_leave_one_address(api: Api) -> None:
    flow = await hooked(api, status="draft")
    await asyncio.gather(*(api.call("POST", f"workflows/{flow['id']}/enable", {}) for _ in range(12)))
    listed = (await api.get("integrations", kind="webhook"))["items"]
    assert [one["config"]["workflow"] for one in listed] == [flow["id"]]
