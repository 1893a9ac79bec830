"""What people start on pages: runs by hand and deliveries played again; and where a webhook's address is shown."""

import uuid
from typing import Any

import pytest

from tests.doubles.seen import Seen
from tests.integration.running import issue
from tests.integration.serving import Api, fresh_token, listening, workflow
from tests.integration.test_by_hand import VARIABLES, logged, manual, runs_of
from tests.integration.test_webhooks import hooked, send

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def page(api: Api, path: str) -> Seen:
    async with api.session.get(path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
        assert answer.status == 200
        return Seen(await answer.text())


async def submit(api: Api, path: str, **fields: str) -> tuple[int, str, Seen]:
    """The status, where it leads, and the page that came."""
    headers = {"Authorization": f"Bearer {api.token}"}
    async with api.session.post(path, data=fields, headers=headers, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("Location", ""), Seen(await answer.text())


def fields(seen: Seen) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in seen.all("input")}


async def test_a_workflow_is_run_from_its_page_with_its_variables_as_fields(api: Api) -> None:
    flow = await manual(api)
    form = fields(await page(api, f"/workflows/{flow}"))
    assert {"var.customer": "nobody", "var.count": "1"}.items() <= form.items()
    status, place, _ = await submit(api, f"/workflows/{flow}/run", **{**form, "var.customer": "acme", "var.count": "3"})
    assert status == 303
    run = place.rpartition("/")[2]
    assert await logged(api, run) == "for acme, 3 times"
    assert "$workflow_triggered" in (await page(api, place)).text


async def test_a_form_that_is_sent_twice_is_one_run(api: Api) -> None:
    flow = await manual(api)
    form = fields(await page(api, f"/workflows/{flow}"))
    first, second = [await submit(api, f"/workflows/{flow}/run", **form) for _ in range(2)]
    assert (first[0], first[1]) == (303, second[1])
    assert len(await runs_of(api, flow)) == 1


async def test_a_variable_that_does_not_fit_is_said_on_the_page(api: Api) -> None:
    flow = await manual(api)
    status, _, seen = await submit(api, f"/workflows/{flow}/run", **{"var.count": "many"})
    assert status == 400
    assert '"count" must be a number' in seen.text
    assert await runs_of(api, flow) == []


async def test_only_what_a_person_may_start_now_has_the_button(api: Api) -> None:
    async def offers(flow: str, who: Api = api) -> bool:
        return "Run now" in (await page(who, f"/workflows/{flow}")).text

    flow, draft = await manual(api), await manual(api, status="draft")
    events = str((await api.post("workflows", listening(f"events {uuid.uuid4().hex}")))["id"])
    assert [await offers(one) for one in (flow, draft, events)] == [True, False, False]
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert not await offers(flow, viewer)
    status, _, seen = await submit(api, f"/workflows/{draft}/run")
    assert (status, "not active" in seen.text) == (409, True)
    assert (await submit(viewer, f"/workflows/{flow}/run"))[0] == 403


async def test_names_of_variables_are_text_on_the_page(api: Api) -> None:
    hostile = '"><script>alert(1)</script>'
    variables = [*VARIABLES, {"key": hostile, "type": "string", "default": hostile, "label": hostile}]
    made = await api.post("workflows", workflow(f"w {uuid.uuid4().hex}", {"type": "manual"}, variables=variables))
    seen = await page(api, f"/workflows/{made['id']}")
    assert seen.all("script") == []
    assert fields(seen)[f"var.{hostile}"] == hostile


async def test_the_address_of_a_webhook_is_on_its_page_for_editors_alone(api: Api) -> None:
    flow: dict[str, Any] = await hooked(api)
    assert flow["url"] in (await page(api, f"/workflows/{flow['id']}")).text
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    token = flow["path"].rpartition("/")[2]
    for path in (f"/workflows/{flow['id']}", "/deliveries", "/workflows"):
        assert token not in (await page(viewer, path)).text


async def test_a_delivery_to_a_webhook_comes_from_a_workflow_by_its_name(api: Api) -> None:
    flow = await hooked(api)
    assert (await send(api, flow["path"]))[0] == 202
    newest = (await api.get("deliveries"))["items"][0]["id"]
    for path in ("/deliveries", f"/deliveries/{newest}"):
        seen = (await page(api, path)).text
        assert f"webhook {flow['name']}" in seen
        assert f"webhook {flow['id']}" not in seen


async def test_a_delivery_is_played_again_from_its_page_and_the_run_says_which_replay_it_is(api: Api) -> None:
    flow = str((await api.post("workflows", listening(f"loop {uuid.uuid4().hex}")))["id"])
    delivery = await api.deliver(await api.github(), "issues", issue())
    assert (await page(api, f"/deliveries/{delivery}")).text.count("Play again") == 1
    status, place, _ = await submit(api, f"/deliveries/{delivery}/replay", workflow=flow)
    assert status == 303
    assert "(replay 1)" in (await page(api, place)).text
    seen = await page(api, f"/deliveries/{delivery}")
    assert "replay 1: every filter passed" in seen.text
    assert seen.text.count("Play again") == 1
    assert place in [one.get("href") for one in seen.all("a")]


async def test_a_replay_that_starts_nothing_says_why_on_the_page(api: Api) -> None:
    flow = str((await api.post("workflows", listening(f"loop {uuid.uuid4().hex}", "closed")))["id"])
    delivery = await api.deliver(await api.github(), "issues", issue())
    status, _, seen = await submit(api, f"/deliveries/{delivery}/replay", workflow=flow)
    assert (status, "It starts no run" in seen.text) == (409, True)
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert "Play again" not in (await page(viewer, f"/deliveries/{delivery}")).text
    assert (await submit(viewer, f"/deliveries/{delivery}/replay", workflow=flow))[0] == 403
