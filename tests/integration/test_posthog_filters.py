"""Filters that ask for more of a PostHog event than its properties: its person, its groups, the test accounts of its
project. Over HTTP, on SQLite and on Postgres."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from loops.filters import ProjectFilters
from tests.integration.serving import Api, eventually, workflow
from tests.integration.test_posthog import (
    SECRET,
    capture,
    capturing,
    connected,
    loop_on,
    post,
    runs_of,
    said,
    sdk,
    settled,
    signed,
    verdict_on,
)
from triggers.definitions import Definitions

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = [{"key": "email", "value": "@widgets.example", "operator": "not_icontains", "type": "person"}]


def person(key: str, value: Any, operator: str = "exact") -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person"}


def group(index: int, key: str, value: Any, operator: str = "exact") -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "group", "group_type_index": index}


async def loops_on(api: Api, *filters: dict[str, Any]) -> list[str]:
    return [await loop_on(api, filters={"properties": [one]}) for one in filters]


async def started(api: Api, flows: list[str]) -> list[int]:
    return [len(await runs_of(api, flow)) for flow in flows]


async def test_what_an_sdk_said_of_a_person_and_of_a_group_is_what_filters_ask_for(api: Api) -> None:
    key = await capturing(api, group_types="project, company")
    flows = await loops_on(
        api,
        person("plan", ["pro"]),
        group(1, "employees", 10, "gt"),
        {"key": "company_size", "value": "x", "operator": "is_not_set", "type": "group", "group_type_index": 0},
        {"key": "$group_1", "value": "acme", "operator": "exact", "type": "event_metadata"},
        {"key": "person.properties.plan = 'pro' and group_1.properties.employees > 10", "type": "hogql"},
        person("plan", ["free"]),
        group(0, "employees", 10, "gt"),
        group(1, "employees", 100, "gt"),
    )

    def send() -> list[Any]:
        client, failed = sdk(api, key, sync_mode=True)
        client.set(distinct_id="ada", properties={"plan": "pro"})
        client.group_identify("company", "acme", {"employees": 11})
        client.capture("signed_up", distinct_id="ada", groups={"company": "acme"})
        client.shutdown()
        return failed

    assert await asyncio.to_thread(send) == []
    await eventually(
        lambda: api.get("deliveries"), lambda found: all(one["status"] != "accepted" for one in found["items"])
    )
    assert await started(api, flows) == [1, 1, 1, 1, 1, 0, 0, 0]
    delivery = (await api.get("deliveries"))["items"][0]  # the newest
    for flow, words in ((flows[5], "person.plan"), (flows[7], "group_1.employees")):
        verdict = await verdict_on(api, delivery["id"], flow)
        assert (verdict["stage"], verdict["passed"]) == ("filters", False)
        assert words in verdict["reason"]


async def test_what_a_webhook_tells_of_person_and_groups_is_what_filters_ask_for(api: Api) -> None:
    hook = await connected(api, webhook_secret=SECRET)
    flows = await loops_on(api, person("plan", ["pro"]), group(2, "name", "Acme"), group(0, "name", "Acme"))
    told = {"id": "acme", "type": "company", "index": 2, "properties": {"name": "Acme"}}
    body = json.dumps(
        {
            "event": {"event": "signed_up", "distinct_id": "ada", "uuid": str(uuid.uuid4()), "properties": {}},
            "person": {"id": "p1", "name": "Ada", "properties": {"plan": "pro"}},
            "groups": {"company": told},
        }
    ).encode()
    _, answer, _ = await post(api, hook, body, **signed(body))
    await settled(api, answer["delivery"])
    assert await started(api, flows) == [1, 1, 0]


async def test_a_mask_may_count_by_person(api: Api) -> None:
    key = await capturing(api)
    document = workflow("once a person", {"type": "event", "filters": {"events": [{"id": "signed_up"}]}})
    document["trigger_masking"] = {"hash": "{person.properties.email}", "ttl": 3600}
    flow = (await api.post("workflows", document))["id"]
    for who, email in (("ada", "a@x.example"), ("ada2", "a@x.example"), ("bob", "b@x.example")):
        delivery = await capture(api, key, said(who=who, change={"email": email}))
        told = await verdict_on(api, delivery, flow)
        assert told["stage"] == ("mask" if who == "ada2" else "start")
    assert len(await runs_of(api, flow)) == 2


async def test_saving_and_checking_know_the_test_accounts_of_their_project(api: Api) -> None:
    trigger = {"type": "event", "filters": {"events": [{"id": "signed_up"}], "filter_test_accounts": True}}
    document = workflow("without tests", trigger, status="draft")
    checked = await api.post("workflows/validate", {"document": document})
    (warning,) = checked["warnings"]
    assert "holds nothing back" in warning["message"]
    assert "test-account-filters" in warning["hint"]

    assert (await api.call("PUT", "test-account-filters", {"filters": OWN}))[0] == 200
    checked = await api.post("workflows/validate", {"document": document})
    assert (checked["valid"], checked["warnings"]) == (True, [])
    saved = await api.post("workflows", document)
    assert saved["warnings"] == []
    assert (await api.post(f"workflows/{saved['id']}/enable"))["warnings"] == []


async def test_test_accounts_are_told_by_what_is_known_of_the_person(api: Api) -> None:
    key = await capturing(api)
    await api.call("PUT", "test-account-filters", {"filters": OWN})
    flow = await loop_on(api, filters={"filter_test_accounts": True})
    await capture(api, key, said("$set", who="own", change={"email": "ada@widgets.example"}))
    for who, runs in (("own", 0), ("customer", 1)):
        delivery = await capture(api, key, said(who=who))
        assert len(await runs_of(api, flow)) == runs
        assert (await verdict_on(api, delivery, flow))["stage"] == ("start" if runs else "filters")


async def test_every_process_judges_by_the_new_test_accounts_and_by_them_alone(api: Api) -> None:
    judged_by: list[ProjectFilters] = []

    def begin(_flow: str, _version: int, project: ProjectFilters, _read: Any) -> Any:
        judged_by.append(project)

    flow = await loop_on(api, filters={"filter_test_accounts": True})
    another = Definitions(begin, lambda *_revision: ())  # of a process beside the service's

    def keys(connection: Any) -> list[str]:
        another.refresh(connection)
        (listener,) = [one for one in another.listeners() if one.key == flow]
        another.initial_state(connection, listener)
        return [condition.key for condition in listener.filter.predicates]

    reader = api.service.services.reader
    assert await reader.read(keys) == []
    host = {"key": "$host", "value": "localhost", "operator": "is_not", "type": "event"}
    for filters, wanted in ((OWN, ["person.email"]), ([host], ["$host"]), ([], [])):
        await api.call("PUT", "test-account-filters", {"filters": filters})
        assert await reader.read(keys) == wanted
        assert list(judged_by[-1].test_accounts) == filters
