"""Schedules as people and programs manage them: API, command line, files and pages of a running service."""

import asyncio
import contextlib
import io
import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from server.cli import main
from tests.doubles.seen import Seen
from tests.integration.serving import Api, fresh_token, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAILY = {"rrule": "FREQ=DAILY;INTERVAL=1", "starts_at": "2026-07-06T09:00:00", "timezone": "America/New_York"}


def document(**more: Any) -> dict[str, Any]:
    flow = workflow(f"on time {uuid.uuid4().hex}", {"type": "schedule"}, **more)
    flow["actions"][1]["config"]["inputs"]["text"]["value"] = (
        "at {event.properties.local_time} for {variables.customer}"
    )
    return {"variables": [{"key": "customer", "type": "string", "default": "nobody"}], **flow}


async def stored(api: Api, **more: Any) -> str:
    return str((await api.post("workflows", document(**more)))["id"])


async def scheduled(api: Api, flow: str, **given: Any) -> dict[str, Any]:
    status, made = await api.call("POST", f"workflows/{flow}/schedules", {**DAILY, **given})
    assert status == 201, made
    return dict(made)


async def of(api: Api, flow: str) -> list[dict[str, Any]]:
    """The schedules of a workflow, the oldest first."""
    found: list[dict[str, Any]] = (await api.get(f"workflows/{flow}"))["schedules"]
    return found


def soon(seconds: float = 2.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0).isoformat()


async def test_case_117_118_creating_answers_201_with_what_is_next_and_several_are_taken(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow, variables={"customer": "acme", "count": 5}, catch_up="all")
    assert made["when"] == "every day at 09:00, America/New_York"
    assert (made["status"], made["catch_up"], made["workflow"]) == ("active", "all", flow)
    assert made["variables"] == {"customer": "acme", "count": 5}
    assert datetime.fromisoformat(made["next_run_at"]) == datetime.fromisoformat(made["next_local"])
    assert "T09:00:00-0" in made["next_local"]
    other = await scheduled(api, flow, rrule=None, starts_at=None, cron="0 9 1 * *")
    assert other["when"] == "cron 0 9 1 * *, America/New_York"
    listed = await api.get(f"workflows/{flow}/schedules")
    assert [one["id"] for one in listed["items"]] == [other["id"], made["id"]]
    assert [one["id"] for one in await of(api, flow)] == [made["id"], other["id"]]
    for path in (f"schedules/{made['id']}", f"workflows/{flow}/schedules/{made['id']}"):
        assert await api.get(path) == {key: value for key, value in made.items() if key != "warnings"}


async def test_an_occurrence_starts_a_run_in_time_and_a_schedule_that_is_over_is_completed(api: Api) -> None:
    flow = await stored(api)
    due = soon()
    made = await scheduled(api, flow, rrule="FREQ=DAILY;COUNT=1", starts_at=due, variables={"customer": "acme"})
    await api.until(
        "runs?workflow=" + flow, lambda found: found["items"] and found["items"][0]["status"] == "completed"
    )
    (run,) = (await api.get("runs", workflow=flow))["items"]
    assert (run["event"], run["source"], run["what"], run["delivery"]) == (
        "$scheduled",
        "schedule",
        "its schedule",
        None,
    )
    (past,) = (await api.get(f"workflows/{flow}/schedules/{made['id']}/occurrences"))["items"]
    assert (past["at"], past["outcome"], past["run"]) == (due, "ran", run["id"])
    assert (await api.get(f"schedules/{made['id']}"))["status"] == "completed"
    (step, _) = (await api.get(f"runs/{run['id']}"))["steps"]
    local = datetime.fromisoformat(made["next_local"]).isoformat()
    assert step["result"]["text"] == f"at {local} for acme"
    exported = await api.get(f"runs/{run['id']}/export")
    assert exported["event"]["properties"]["late"] is False


async def test_an_edit_takes_effect_within_seconds_and_fires_nothing_of_the_past(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow)
    path = f"workflows/{flow}/schedules/{made['id']}"
    status, edited = await api.call("PATCH", path, {"rrule": "FREQ=HOURLY;INTERVAL=1", "starts_at": soon(-86400 + 2)})
    assert (status, edited["status"]) == (200, "active")
    await api.until("runs?workflow=" + flow, lambda found: found["items"])
    assert len((await api.get(f"{path}/occurrences"))["items"]) == 1
    assert len((await api.get("runs", workflow=flow))["items"]) == 1


async def test_pausing_lets_it_rest_and_resuming_goes_on_from_now(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow)
    path = f"workflows/{flow}/schedules/{made['id']}"
    paused = await api.post(f"{path}/pause")
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    resumed = await api.post(f"{path}/resume")
    assert (resumed["status"], resumed["next_run_at"]) == ("active", made["next_run_at"])
    assert [one["id"] for one in (await api.get("schedules", workflow=flow, status="active"))["items"]] == [made["id"]]
    assert (await api.get("schedules", workflow=flow, status="paused"))["items"] == []
    assert (await api.call("DELETE", path))[0] == 204
    assert (await api.refused("GET", path))[0] == 404


async def test_sc27_sc28_run_now_is_a_run_each_time_and_a_clear_409_of_a_disabled_workflow(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow)
    await api.post(f"workflows/{flow}/schedules/{made['id']}/pause")
    started = [(await api.call("POST", f"workflows/{flow}/run", {}))[1]["run"] for _ in range(2)]
    assert len(set(started)) == 2
    assert (await api.get(f"workflows/{flow}/schedules/{made['id']}/occurrences"))["items"] == []
    await api.call("POST", f"workflows/{flow}/disable", {"running": "drain"})
    status, error = await api.refused("POST", f"workflows/{flow}/run", {})
    assert (status, "not active" in error["message"]) == (409, True)


async def test_disabling_the_workflow_lets_its_schedules_rest(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow)
    await api.post(f"workflows/{flow}/disable")
    assert (await api.get(f"schedules/{made['id']}"))["next_run_at"] is None
    enabled = await api.post(f"workflows/{flow}/enable")
    assert enabled["warnings"] == []
    assert (await api.get(f"schedules/{made['id']}"))["next_run_at"] == made["next_run_at"]


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"rrule": "INVALID"}, "rrule", "Invalid RRULE."),
        ({"rrule": "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY"}, "rrule", "Invalid RRULE."),
        ({"rrule": "FREQ=MINUTELY"}, "rrule", "Schedules must run at most once per hour."),
        ({"rrule": "FREQ=DAILY;COUNT=1", "starts_at": "2020-01-01T00:00:00Z"}, "rrule", "no future occurrences."),
        ({"timezone": "Mars/Olympus"}, "timezone", "Invalid or unknown timezone."),
        ({"starts_at": None}, "starts_at", "is missing"),
        ({"cron": "0 9 * * *"}, "cron", "does not go together"),
        ({"variables": {"x": "y" * 6000}}, "variables", "5120 is the limit"),
    ],
)
async def test_what_cannot_be_a_schedule_is_400_with_its_path_and_stores_nothing(api, given, path, words) -> None:
    flow = await stored(api)
    status, told = await api.call("POST", f"workflows/{flow}/schedules", {**DAILY, **given})
    (fault,) = told["error"]["faults"]
    assert (status, told["error"]["code"], fault["path"]) == (400, "definition.schedule", path)
    assert words in fault["message"]
    assert fault["hint"]
    assert await of(api, flow) == []


async def test_sc15_a_loop_takes_the_five_rules_alone(api: Api) -> None:
    flow = await stored(api, origin_product="loops")
    assert (await scheduled(api, flow))["when"] == "every day at 09:00, America/New_York"
    _, told = await api.call("POST", f"workflows/{flow}/schedules", {**DAILY, "rrule": "FREQ=DAILY;INTERVAL=2"})
    (fault,) = told["error"]["faults"]
    for rule in ("FREQ=HOURLY;INTERVAL=1", "FREQ=WEEKLY;INTERVAL=1;BYDAY=<MO..SU>", "FREQ=DAILY;COUNT=1"):
        assert rule in fault["hint"]


async def test_who_may_not_and_what_is_not_there_is_refused(api: Api) -> None:
    flow, other = await stored(api), await stored(api)
    made = await scheduled(api, flow)
    assert (await api.refused("GET", f"workflows/{other}/schedules/{made['id']}"))[0] == 404
    assert (await api.refused("POST", f"workflows/{uuid.uuid4()}/schedules", DAILY))[0] == 404
    assert (await api.refused("POST", f"workflows/{flow}/schedules", {**DAILY, "status": "paused"}))[0] == 400
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert (await viewer.refused("POST", f"workflows/{flow}/schedules", DAILY))[0] == 403
    assert (await viewer.refused("POST", f"workflows/{flow}/schedules/{made['id']}/pause"))[0] == 403
    assert (await viewer.get(f"schedules/{made['id']}"))["id"] == made["id"]
    manual = await api.post("workflows", workflow(f"w {uuid.uuid4().hex}", {"type": "event", "filters": {}}))
    status, error = await api.refused("POST", f"workflows/{manual['id']}/schedules", DAILY)
    assert (status, error["code"]) == (400, "definition.schedule")


async def test_d18_an_offset_that_the_zone_does_not_have_is_a_warning(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow, starts_at="2026-07-06T16:00:00-06:00")
    (warning,) = made["warnings"]
    assert warning["path"] == "starts_at"
    assert "2026-07-06T18:00:00-04:00" in warning["message"]


async def test_sc11_the_preview_of_a_draft_and_of_the_stored_one_are_the_same_and_mark_clock_changes(api: Api) -> None:
    flow = await stored(api)
    given = {"cron": "30 1 * * *", "timezone": "America/New_York", "count": 100}
    _, told = await api.call("POST", f"workflows/{flow}/schedules/preview", given)
    drafted = told["items"]
    assert await of(api, flow) == []
    made = await scheduled(api, flow, rrule=None, starts_at=None, cron="30 1 * * *")
    stored_ones = (await api.get(f"workflows/{flow}/schedules/{made['id']}/preview", count=100))["items"]
    assert drafted == stored_ones
    assert drafted[0]["at"] == made["next_run_at"]
    year = datetime.now(UTC).year + 1
    rule = {"rrule": "FREQ=DAILY;INTERVAL=1", "starts_at": f"{year}-03-01T02:30:00", "timezone": "America/New_York"}
    _, told = await api.call("POST", f"workflows/{flow}/schedules/preview", {**rule, "count": 31})
    marked = [one["note"] for one in told["items"] if one["mark"] == "skipped"]
    assert marked == ["clocks go forward: 02:30 does not exist that day, so it is 03:30"]
    for count in ("0", "101", "x"):
        status, error = await api.refused("GET", f"workflows/{flow}/schedules/{made['id']}/preview", count=count)
        assert (status, error["path"]) == (400, "count")


async def test_lists_are_paged(api: Api) -> None:
    flow = await stored(api)
    made = [(await scheduled(api, flow))["id"], (await scheduled(api, flow, timezone="UTC"))["id"]]
    first = await api.get("schedules", limit=1)
    second = await api.get("schedules", limit=1, cursor=first["next"])
    assert [one["items"][0]["id"] for one in (first, second)] == made[::-1]
    assert second["next"] is None


# Files


async def applied(api: Api, flow: dict[str, Any], enable: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = await api.post("workflows/apply", {"document": flow, "enable": enable})
    return told


async def test_a_file_with_schedules_makes_the_workflow_have_those(api: Api) -> None:
    flow = document()
    nightly = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "catch_up": "none", "status": "paused"}
    made = await applied(api, {**flow, "schedules": [DAILY, nightly]})
    assert (made["change"], made["warnings"]) == ("created", [])
    first, second = await of(api, made["id"])
    assert (first["rrule"], second["cron"]) == (DAILY["rrule"], "0 2 * * *")
    assert (second["status"], second["catch_up"], second["next_run_at"]) == ("paused", "none", None)

    again = await applied(api, {**flow, "schedules": [DAILY, nightly]})
    assert again["change"] == "unchanged"
    assert await of(api, made["id"]) == [first, second]

    shortened = {**flow, "schedules": [{**DAILY, "variables": {"customer": "acme", "custmer": 1}}]}
    removed = "0 2 * * * (Europe/Berlin) {}: the file does not have it"
    undeclared = {
        "path": "schedules[0].variables.custmer",
        "message": "is none of the workflow's variables",
        "hint": 'did you mean "customer"?',
        "code": "undeclared-schedule-variable",
    }
    warned = (await api.post("workflows/validate", {"document": shortened}))["warnings"]
    assert warned[0] == undeclared
    assert [one["message"] for one in warned[1:]] == [removed.format("would be removed")]
    changed = await applied(api, shortened)
    assert changed["change"] == "updated"
    assert changed["warnings"][0] == undeclared
    assert [one["message"] for one in changed["warnings"][1:]] == [removed.format("is removed")]
    assert '{"cron": "0 2 * * *", "timezone": "Europe/Berlin", ' in changed["warnings"][1]["hint"]
    (kept,) = await of(api, made["id"])
    assert (kept["id"], kept["variables"], kept["next_run_at"]) == (
        first["id"],
        {"customer": "acme", "custmer": 1},
        first["next_run_at"],
    )

    assert (await applied(api, flow))["change"] == "unchanged"
    assert len(await of(api, made["id"])) == 1
    assert (await applied(api, {**flow, "schedules": []}))["change"] == "updated"
    assert await of(api, made["id"]) == []


async def test_a_file_whose_schedules_are_at_fault_changes_nothing_and_names_the_place(api: Api) -> None:
    flow = document()
    bad = {**flow, "schedules": [DAILY, {**DAILY, "rrule": "FREQ=SECONDLY"}, {"cron": "x"}, DAILY]}
    checked = await api.post("workflows/validate", {"document": bad})
    paths = [fault["path"] for fault in checked["faults"]]
    assert paths == ["schedules[1].rrule", "schedules[2].cron", "schedules[3]"]
    status, _ = await api.call("POST", "workflows/apply", {"document": bad})
    assert status == 400
    assert (await api.get("workflows", name=flow["name"]))["items"] == []
    webhook = workflow(f"w {uuid.uuid4().hex}", {"type": "event", "filters": {}}, schedules=[DAILY])
    status, error = await api.refused("POST", "workflows/apply", {"document": webhook})
    assert (status, error["path"]) == (400, "schedules")


async def test_a_file_keeps_what_is_over_and_does_not_make_it_anew(api: Api) -> None:
    over = {"rrule": "FREQ=DAILY;COUNT=1", "starts_at": "2020-01-01T00:00:00Z", "status": "completed"}
    made = await applied(api, {**document(), "schedules": [DAILY, over]})
    (warning,) = made["warnings"]
    assert (warning["path"], warning["message"]) == ("schedules[1]", "has no future occurrence, and was not created")
    assert len(await of(api, made["id"])) == 1


async def test_a_workflow_that_is_stored_otherwise_leaves_its_schedules_and_says_so(api: Api) -> None:
    made = await api.post("workflows", {**document(), "schedules": [DAILY]})
    assert "loops apply" in next(one["hint"] for one in made["warnings"] if one["path"] == "schedules")
    assert await of(api, made["id"]) == []


# Command line


async def cli(api: Api, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """The exit code, what was printed, and what was complained of."""
    monkeypatch.setenv("LOOPS_TOKEN", api.token)
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = await asyncio.to_thread(main, [*words, "--url", api.service.url, "--project", api.project])
    return code, out.getvalue(), errors.getvalue()


async def test_the_command_line_manages_schedules(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = await stored(api)

    async def done(*words: str) -> Any:
        code, out, errors = await cli(api, monkeypatch, *words, "--json")
        assert code == 0, errors
        return json.loads(out)

    rule = ("--rrule", DAILY["rrule"], "--starts-at", DAILY["starts_at"], "--timezone", "Europe/Berlin")
    made = await done("schedules", "create", flow, *rule, "--var", "customer=acme", "--catch-up", "none")
    assert (made["variables"], made["catch_up"]) == ({"customer": "acme"}, "none")
    for words in (("schedules",), ("schedules", "list"), ("schedules", "--workflow", flow)):
        listed = await done(*words)
        assert ([one["id"] for one in listed["items"]], listed["next"]) == ([made["id"]], None)
    assert (await done("schedules", "pause", made["id"]))["status"] == "paused"
    assert (await done("schedules", "resume", made["id"]))["status"] == "active"
    updated = await done("schedules", "update", made["id"], "--cron", "0 7 * * 1")
    assert (updated["rrule"], updated["cron"]) == (None, "0 7 * * 1")
    ahead = (await done("schedules", "preview", made["id"], "--count", "3"))["items"]
    assert [one["local"][11:16] for one in ahead] == ["07:00"] * 3
    drafted = await done(
        "schedules", "preview", "--workflow", flow, "--cron", "0 7 * * 1", "--timezone", "Europe/Berlin"
    )
    assert drafted["items"][:3] == ahead
    assert (await done("schedules", "past", made["id"]))["items"] == []
    code, out, _ = await cli(api, monkeypatch, "schedules")
    assert (code, out.split()[:2]) == (0, ["WORKFLOW", "WHEN"])
    assert "cron 0 7 * * 1, Europe/Berlin" in out
    code, out, _ = await cli(api, monkeypatch, "schedules", "preview", made["id"])
    assert out.splitlines()[0].split() == ["UTC", "LOCAL", "NOTE"]
    code, _, errors = await cli(api, monkeypatch, "schedules", "create", flow, "--rrule", "FREQ=SECONDLY")
    assert code == 1
    assert "starts_at: is missing" in errors
    assert "rrule: Schedules must run at most once per hour." in errors
    assert (await done("schedules", "delete", made["id"])) == {"id": made["id"]}
    code, _, errors = await cli(api, monkeypatch, "schedules", "pause", made["id"])
    assert (code, "there is no schedule" in errors) == (1, True)


async def test_an_export_shows_the_schedules_and_can_be_applied(api: Api, monkeypatch, tmp_path: Path) -> None:
    flow = document()
    made = await applied(api, {**flow, "schedules": [DAILY, {"cron": "0 2 * * *", "status": "paused"}]})
    _, out, _ = await cli(api, monkeypatch, "export", made["id"])
    exported = json.loads(out)
    assert exported["schedules"] == [
        {**DAILY, "catch_up": "last"},
        {"cron": "0 2 * * *", "timezone": "UTC", "catch_up": "last", "status": "paused"},
    ]
    file = tmp_path / "flow.json"
    file.write_text(out)
    code, out, errors = await cli(api, monkeypatch, "apply", "-f", str(file), "--json")
    assert (code, json.loads(out)["workflows"][0]["change"]) == (0, "unchanged"), errors
    code = await asyncio.to_thread(main, ["validate", str(file)])
    assert code == 0
    exported["schedules"].append({"cron": "x"})
    file.write_text(json.dumps(exported))
    errors_of = io.StringIO()
    with contextlib.redirect_stderr(errors_of):
        assert await asyncio.to_thread(main, ["validate", str(file)]) == 1
    assert "schedules[2].cron" in errors_of.getvalue()


# Pages


async def page(api: Api, path: str, status: int = 200) -> Seen:
    async with api.session.get(path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
        assert answer.status == status
        return Seen(await answer.text())


async def submit(api: Api, path: str) -> tuple[int, str, Seen]:
    headers = {"Authorization": f"Bearer {api.token}"}
    async with api.session.post(path, data={"_": ""}, headers=headers, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("Location", ""), Seen(await answer.text())


async def test_pages_show_schedules_what_comes_next_and_what_became_of_the_past(api: Api) -> None:
    flow = await stored(api)
    assert "It has none yet" in (await page(api, f"/workflows/{flow}")).text
    due = await scheduled(api, flow, rrule="FREQ=DAILY;COUNT=1", starts_at=soon())
    made = await scheduled(api, flow, starts_at="2026-03-01T02:30:00", variables={"customer": "<b>acme</b>"})
    for path in ("/schedules", f"/workflows/{flow}"):
        seen = await page(api, path)
        assert "Every day at 02:30, America/New_York" in seen.text
        assert f"/schedules/{made['id']}" in [one.get("href") for one in seen.all("a")]
    seen = await page(api, f"/schedules/{made['id']}")
    assert "acme" in seen.text
    assert seen.all("b") == []
    headers = {one.get("scope") for one in seen.all("th")}
    assert headers == {"col", "row"}
    times = [one.get("datetime") for one in seen.all("time")]
    ahead = (await api.get(f"workflows/{flow}/schedules/{made['id']}/preview"))["items"]
    assert all(one["local"] in times for one in ahead)
    await api.until(f"workflows/{flow}/schedules/{due['id']}/occurrences", lambda found: found["items"])
    seen = await page(api, f"/schedules/{due['id']}")
    assert "It has no further occurrence." in seen.text
    assert "ran" in seen.text
    assert any((one.get("href") or "").startswith("/runs/") for one in seen.all("a"))


async def test_a_schedule_is_paused_and_resumed_from_its_page_by_those_who_may(api: Api) -> None:
    flow = await stored(api)
    made = await scheduled(api, flow)
    assert (await submit(api, f"/schedules/{made['id']}/pause"))[:2] == (303, f"/schedules/{made['id']}")
    assert "It is paused" in (await page(api, f"/schedules/{made['id']}")).text
    assert (await submit(api, f"/schedules/{made['id']}/resume"))[0] == 303
    assert (await api.get(f"schedules/{made['id']}"))["status"] == "active"
    viewer = api.as_role(await fresh_token(api.service, api.project, "viewer"))
    assert "Pause" not in (await page(viewer, f"/schedules/{made['id']}")).text
    assert (await submit(viewer, f"/schedules/{made['id']}/pause"))[0] == 403
    await page(api, "/schedules/nothing", 404)
    await page(api, "/schedules?before=x", 400)
    await page(api, "/schedules?status=x", 400)
    assert "No completed schedules" in (await page(api, f"/schedules?workflow={flow}&status=completed")).text


async def test_pages_of_schedules_go_on_where_the_one_before_ended(api: Api) -> None:
    flows = [await stored(api) for _ in range(2)]
    for flow, minute in itertools.product(flows, range(30)):
        await scheduled(api, flow, rrule=None, starts_at=None, cron=f"{minute} 9 * * *")
    first = await page(api, "/schedules")
    (older,) = [one["href"] for one in first.all("a") if one.get("rel") == "next"]
    assert "Newest" in (await page(api, older)).text
