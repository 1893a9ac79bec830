"""Runs that people start, by API, command and page, on SQLite and on Postgres."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from loops.store.run_keys import run_keys
from tests.integration.serving import Api, fresh_token, listening, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

VARIABLES = [
    {"key": "customer", "type": "string", "default": "nobody"},
    {"key": "count", "type": "number", "default": "1"},
]


async def manual(api: Api, kind: str = "manual", **more: Any) -> str:
    """A workflow that is started by hand; its id."""
    document = workflow(f"by hand {uuid.uuid4().hex}", {"type": kind}, variables=VARIABLES, **more)
    document["actions"][1]["config"]["inputs"]["text"]["value"] = "for {variables.customer}, {variables.count} times"
    return str((await api.post("workflows", document))["id"])


async def start(api: Api, flow: str, key: str = "", **variables: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {api.token}", **({"Idempotency-Key": key} if key else {})}
    return await api.call("POST", f"workflows/{flow}/run", {"variables": variables}, headers=headers)


async def runs_of(api: Api, flow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("runs", workflow=flow))["items"]
    return found


async def logged(api: Api, run: str) -> str:
    """What the run's first step wrote."""
    over = await api.until(f"runs/{run}", lambda one: one["status"] in {"completed", "failed"})
    assert over["status"] == "completed", over
    return str(over["steps"][0]["result"]["text"])


@pytest.mark.parametrize("kind", ["manual", "schedule"])
async def test_a_run_by_hand_begins_with_the_variables_that_were_given(api: Api, kind: str) -> None:
    flow = await manual(api, kind)
    status, told = await start(api, flow, customer="acme", count=3)
    assert (status, told["status"], told["event"]) == (202, "queued", "$workflow_triggered")
    assert told["invocation_id"] == told["run"]
    assert await logged(api, told["run"]) == "for acme, 3 times"
    run = await api.get(f"runs/{told['run']}")
    assert (run["source"], run["delivery"], run["replay"]) == ("manual", None, 0)
    exported = await api.get(f"runs/{told['run']}/export")
    assert exported["event"]["properties"]["$variables"] == {"customer": "acme", "count": 3}


async def test_what_is_not_given_keeps_its_default(api: Api) -> None:
    flow = await manual(api)
    _, told = await start(api, flow)
    assert await logged(api, told["run"]) == "for nobody, 1 times"


async def test_sc27_run_now_twice_without_a_key_is_two_runs_and_with_the_same_key_one(api: Api) -> None:
    flow = await manual(api)
    first, second = await start(api, flow), await start(api, flow)
    assert first[1]["run"] != second[1]["run"]
    keyed = [await start(api, flow, "k1", customer="acme") for _ in range(2)]
    assert keyed[0] == keyed[1]
    assert len(await runs_of(api, flow)) == 3


async def test_sc27_ten_at_once_with_one_key_are_one_run_and_one_answer(api: Api) -> None:
    flow = await manual(api)
    answers = await asyncio.gather(*(start(api, flow, "k1") for _ in range(10)))
    assert len({answer["run"] for _, answer in answers}) == 1
    assert len(await runs_of(api, flow)) == 1


async def test_a_key_counts_for_its_workflow_alone(api: Api) -> None:
    one, other = await manual(api), await manual(api)
    assert (await start(api, one, "k1"))[1]["run"] != (await start(api, other, "k1"))[1]["run"]


async def test_a_key_with_other_variables_is_409(api: Api) -> None:
    flow = await manual(api)
    await start(api, flow, "k1", customer="acme")
    status, told = await start(api, flow, "k1", customer="other")
    assert (status, told["error"]["code"]) == (409, "store.conflict")
    assert len(await runs_of(api, flow)) == 1


async def test_a_key_is_forgotten_after_a_day(api: Api) -> None:
    flow = await manual(api)
    _, first = await start(api, flow, "k1")
    earlier = api.service.services.clock.now() - timedelta(hours=24, minutes=1)
    change = run_keys.update().where(run_keys.c.workflow_id == flow).values(created_at=earlier)
    await api.service.services.writer.run(lambda connection: connection.execute(change).rowcount)
    _, second = await start(api, flow, "k1")
    assert first["run"] != second["run"]
    assert await start(api, flow, "k1") == (202, second)


async def test_sc28_run_now_on_a_workflow_that_is_not_active_is_a_clear_409(api: Api) -> None:
    flow = await manual(api, status="draft")
    status, told = await start(api, flow)
    assert status == 409
    assert "not active: it is a draft" in told["error"]["message"]
    assert "enable" in told["error"]["hint"]
    await api.call("DELETE", f"workflows/{flow}")
    status, told = await start(api, flow)
    assert status == 409
    assert "archived" in told["error"]["message"]


async def test_a_workflow_that_events_start_is_409_and_replay_is_named(api: Api) -> None:
    flow = str((await api.post("workflows", listening(f"events {uuid.uuid4().hex}")))["id"])
    status, told = await start(api, flow)
    assert status == 409
    assert "loops replay" in told["error"]["hint"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"variables": {"custommer": "x"}}, "variables.custommer"),
        ({"variables": {"count": "many"}}, "variables.count"),
        ({"variables": {"customer": "x" * 6000}}, "variables"),
        ({"variables": []}, "variables"),
        ({"variable": {}}, "variable"),
    ],
)
async def test_variables_that_do_not_fit_are_refused_and_start_nothing(api: Api, body: Any, path: str) -> None:
    flow = await manual(api)
    status, error = await api.refused("POST", f"workflows/{flow}/run", body)
    assert (status, error["path"]) == (400, path)
    assert await runs_of(api, flow) == []


async def test_a_key_that_does_not_fit_is_refused(api: Api) -> None:
    flow = await manual(api)
    assert (await start(api, flow, "k" * 201))[0] == 400


async def test_masking_never_holds_for_a_run_by_hand(api: Api) -> None:
    flow = await manual(api, trigger_masking={"hash": "all", "ttl": 3600})
    for _ in range(2):
        assert (await start(api, flow))[0] == 202
    assert len(await runs_of(api, flow)) == 2


async def test_a_viewer_starts_nothing_and_another_project_sees_nothing(api: Api) -> None:
    flow = await manual(api)
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert (await start(viewer, flow))[0] == 403
    assert (await start(api, str(uuid.uuid4())))[0] == 404


async def test_old_keys_are_removed(api: Api) -> None:
    from loops.store import retention

    flow = await manual(api)
    await start(api, flow, "k1")
    services = api.service.services

    def left(connection: sa.Connection) -> int:
        query = sa.select(sa.func.count()).select_from(run_keys).where(run_keys.c.workflow_id == flow)
        return int(connection.execute(query).scalar_one())

    async def remove(after: timedelta) -> int:
        old = await services.reader.read(
            lambda connection: retention.find(connection, services.clock.now() + after, 30)
        )
        only = retention.Old(run_keys=old.run_keys)
        await services.writer.run(lambda connection: retention.remove(connection, only))
        return await services.reader.read(left)

    assert await remove(timedelta(hours=23)) == 1
    assert await remove(timedelta(hours=25)) == 0
