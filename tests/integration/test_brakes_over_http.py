"""Brakes and forecasts as people and programs meet them: API, command line, pages, and every kind of sender."""

import asyncio
import contextlib
import io
import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import yaml

from server.cli import main
from tests.doubles.seen import Seen
from tests.integration.running import issue
from tests.integration.serving import Api, fresh_token, listening, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "{event.properties.number}"


async def page(api: Api, path: str) -> str:
    async with api.session.get(path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
        assert answer.status == 200
        return Seen(await answer.text()).text


async def cli(api: Api, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """The exit code, what was printed, and what was complained of."""
    monkeypatch.setenv("LOOPS_TOKEN", api.token)
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = await asyncio.to_thread(main, [*words, "--url", api.service.url, "--project", api.project])
    return code, out.getvalue(), errors.getvalue()


async def test_pages_and_verdicts_tell_what_holds_back_and_what_is_held(api: Api) -> None:
    brakes: dict[str, Any] = {
        "trigger_debounce": {"quiet": 600, "longest": 3600, "key": KEY},
        "trigger_overlap": {"policy": "queue", "maximum": 2},
    }
    flow = (await api.post("workflows", listening("braked", repository="acme/braked", **brakes)))["id"]
    hook = await api.github()
    first, second = [await api.deliver(hook, "issues", issue("acme/braked", 7)) for _ in range(2)]
    text = await page(api, f"/workflows/{flow}")
    assert (
        f"Debounce: the last event, once none has come for 10 min, 1 h after the first at most, for each {KEY}" in text
    )
    assert "Overlap: one run at a time; up to 2 wait" in text
    assert "Debounce holds an event of 7, the last of 2, until" in text
    (verdict,) = (await api.get(f"deliveries/{first}/verdicts"))["verdicts"]
    assert verdict["stage"] == "debounce"
    assert "debounced into the event" in verdict["reason"]
    assert f"of delivery {second} (key '7'), the last of 2 so far" in verdict["reason"]
    assert f"of delivery {second}" in await page(api, f"/deliveries/{first}")
    assert "put off by debounce" in await page(api, f"/deliveries/{second}")


async def test_a_run_that_waits_for_its_turn_says_so_and_a_start_that_overlaps_is_a_conflict(api: Api) -> None:
    overlap = {"policy": "queue", "maximum": 1}
    flow = (await api.post("workflows", workflow("queued", {"type": "manual"}, wait="1h", trigger_overlap=overlap)))[
        "id"
    ]
    runs = []
    for _ in range(2):
        status, told = await api.call("POST", f"workflows/{flow}/run", {})
        assert status == 202
        runs.append(told["run"])
    assert (await api.get(f"runs/{runs[1]}"))["waiting_for"] == "turn"
    assert "Waits for its turn: another run of this workflow is under way" in await page(api, f"/runs/{runs[1]}")
    assert (await api.get(f"runs/{runs[1]}"))["waiting_run"] == runs[0]
    assert "Go on now" not in await page(api, f"/runs/{runs[1]}")
    assert "for its turn" in await page(api, f"/workflows/{flow}")
    status, error = await api.refused("POST", f"workflows/{flow}/run", {})
    assert (status, error["hint"]) == (409, "wait until that is over, or cancel it: loops cancel RUN")
    await api.post(f"runs/{runs[0]}/cancel")
    await api.until(f"runs/{runs[1]}", lambda run: run["waiting_for"] == "timer")


async def test_a_forecast_of_a_stored_workflow_and_of_a_file_tell_the_same(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit: dict[str, Any] = {"trigger_rate_limit": {"count": 2, "period": 3600}}
    document = listening("forecast", repository="acme/forecast", status="draft", **limit)
    flow = (await api.post("workflows", document))["id"]
    hook = await api.github()
    ids = [await api.deliver(hook, "issues", issue("acme/forecast", number)) for number in range(3)]
    await api.deliver(hook, "issues", issue("acme/elsewhere"))
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    stored = await viewer.post(f"workflows/{flow}/forecast", {"days": 1})
    assert stored["counts"] == {"start": 2, "rate_limit": 1, "filters": 1}
    assert (stored["workflow"], stored["deliveries"], stored["events"]) == (flow, 4, 4)
    assert [hour["counts"]["start"] for hour in stored["hours"] if "start" in hour["counts"]] in ([2], [1, 1])
    given = await viewer.post("workflows/forecast", {"document": document})
    assert given["counts"] == stored["counts"]
    assert given["workflow"] is None
    file = tmp_path / "loop.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    named_by_id = await viewer.post("workflows/forecast", {"id": flow, "days": 1.0})
    assert (named_by_id["workflow"], named_by_id["counts"]) == (flow, stored["counts"])
    assert len(stored["examples"]["start"]) == 2
    assert stored["examples"]["rate_limit"] == [{"at": ANY, "delivery": ids[2]}]
    for named in (str(file), "forecast"):
        code, out, _ = await cli(api, monkeypatch, "forecast", named, "--days", "7")
        assert code == 0
        assert "        2  start a run\n" in out
        assert "        1  over the rate limit\n" in out
    code, out, _ = await cli(api, monkeypatch, "forecast", str(file), "--json")
    assert json.loads(out)["counts"] == stored["counts"]


@pytest.mark.parametrize(
    ("body", "path"),
    [*[({"days": days}, "days") for days in ("week", True, None, 0, -1, 0.5, 1.5, 91, 1e300)], ({"day": 1}, "day")],
)
async def test_a_forecast_that_is_asked_for_wrongly_says_where(api: Api, body: dict[str, Any], path: str) -> None:
    flow = (await api.post("workflows", listening("asked wrongly")))["id"]
    status, error = await api.refused("POST", f"workflows/{flow}/forecast", body)
    assert (status, error["path"]) == (400, path)
    assert (await api.refused("POST", "workflows/forecast", {"id": flow, **body}))[1]["path"] == path
    assert (await api.refused("POST", "workflows/forecast", {}))[1]["path"] == "document"
    assert (await api.refused("POST", "workflows/forecast", {"id": flow, "document": {}}))[1]["path"] == "document"
    assert (await api.refused("POST", "workflows/forecast", {"id": 7}))[0] == 404


async def test_a_forecast_of_a_webhook_looks_at_its_own_address_and_one_by_hand_at_nothing(api: Api) -> None:
    name = {"event": {"value": "order {request.body.kind}"}, "distinct_id": {"value": "{request.body.who}"}}
    brake: dict[str, Any] = {"trigger_masking": {"hash": "{event.properties.who}", "ttl": 3600}}
    document = workflow("hooked", {"type": "webhook", "inputs": name, "allow_unverified": True}, **brake)
    flow = (await api.post("workflows", document))["id"]
    path = (await api.get(f"workflows/{flow}/webhook"))["url"].removeprefix(api.service.url)
    ids = []
    for who in ("ada", "bob", "ada"):
        body = json.dumps({"kind": "paid", "who": who}).encode()
        status, told = await api.call("POST", path, raw=body, headers={"Content-Type": "application/json"})
        assert status == 202
        ids.append(told["delivery"])
    for one in ids:
        await api.until(f"deliveries/{one}", lambda delivery: delivery["status"] != "accepted")
    live = [(await api.get(f"deliveries/{one}/verdicts", workflow=flow))["verdicts"][0]["stage"] for one in ids]
    assert live == ["start", "start", "mask"]
    assert (await api.post(f"workflows/{flow}/forecast"))["counts"] == {"start": 2, "mask": 1}
    found = await api.post("workflows/forecast", {"document": document})
    assert (found["counts"], found["notes"]) == (
        {},
        ["it has no address of its own yet, so nothing has been sent to it"],
    )
    manual = await api.post("workflows/forecast", {"document": workflow("manual", {"type": "manual"})})
    assert manual["notes"] == ["its trigger is started by hand alone: nothing that came would have started it"]


async def test_a_forecast_of_posthog_events_knows_persons_repeats_and_who_may_start_what(api: Api) -> None:
    settings = {"webhook_secret": "s" * 24, "api_key": f"phc_{api.project}_of_these_tests"}
    await api.post("integrations", {"kind": "posthog", "name": "hog", "settings": settings})
    filters = {
        "events": [{"id": "signed_up", "type": "events"}],
        "properties": [{"key": "plan", "value": ["pro"], "operator": "exact", "type": "person"}],
    }
    document = workflow("signed up", {"type": "event", "filters": filters})
    document["trigger_rate_limit"] = {"count": 1, "period": 3600, "key": "{person.properties.team}"}
    flow = (await api.post("workflows", document))["id"]
    batch = [
        {"event": "$identify", "distinct_id": "ada", "$set": {"plan": "pro", "team": "a"}, "uuid": _uuid(1)},
        {"event": "signed_up", "distinct_id": "ada", "properties": {}, "uuid": _uuid(2)},
        {"event": "signed_up", "distinct_id": "ada", "properties": {}, "uuid": _uuid(3)},
        {"event": "signed_up", "distinct_id": "bob", "properties": {}, "uuid": _uuid(4)},
    ]
    for events in (batch, batch[1:2]):  # an SDK that sends one again
        body = json.dumps({"api_key": settings["api_key"], "batch": events}).encode()
        status, _ = await api.call("POST", "/batch/", raw=body, headers={"Content-Type": "application/json"})
        assert status == 200
    await api.until("deliveries", lambda told: all(one["status"] != "accepted" for one in told["items"]))
    counts: dict[str, int] = {}
    for delivery in (await api.get("deliveries"))["items"]:
        for one in (await api.get(f"deliveries/{delivery['id']}/verdicts", workflow=flow))["verdicts"]:
            counts[one["stage"]] = counts.get(one["stage"], 0) + 1
    assert counts == {"trigger": 1, "start": 1, "rate_limit": 1, "filters": 1}
    assert (await api.post(f"workflows/{flow}/forecast"))["counts"] == counts


def _uuid(number: int) -> str:
    return f"018f0000-0000-7000-8000-{number:012d}"
