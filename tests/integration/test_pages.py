import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.runs.state import Finish, Park, RunState, Wait
from loops.store import connections, run_queries, runs
from loops.store.tables import deliveries as deliveries_table
from loops.store.workflows import WorkflowRow, bump_epoch, update
from notify.message import Address, EmailTarget, Message, SlackTarget
from server.auth import SESSION_LIFETIME, Role
from tests.doubles.messages import stored
from tests.doubles.seen import Seen, read
from tests.doubles.site import NOW, OWN_FORM, OWNER, WORKFLOW, Answer, Site, open_site, step_row
from tests.integration.running import issue

PAGES = (
    "/",
    "/deliveries",
    "/deliveries/x",
    "/runs",
    "/runs/x",
    "/runs/x/live",
    "/outbox",
    "/outbox/x",
    "/workflows",
    "/workflows/x",
    "/workflows/x/forecast",
    "/quotas",
    "/spaces",
    "/spaces/x",
)
CHANGES = ("/runs/x/cancel", "/runs/x/resume", "/outbox/x/resend", "/workflows/x/enable", "/workflows/x/disable")
FORMS = (*CHANGES, "/workflows/x/forecast")
HOSTILE = (
    "<img src=x onerror=window.owned=1></script><script>window.owned=1</script>"
    "<a href=javascript:window.owned=1>'\" \x1b[31m \u202egnp\x01 {{ 7*7 }} {% raw %}"
)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        yield site


# Who may see and do what


@pytest.mark.parametrize("path", PAGES)
async def test_whoever_is_not_signed_in_is_sent_to_sign_in(site: Site, path: str) -> None:
    answer = await site.get(path)
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/sign-in")


@pytest.mark.parametrize("path", FORMS)
async def test_whoever_is_not_signed_in_changes_nothing(site: Site, path: str) -> None:
    answer = await site.post(path)
    assert (answer.status, answer.headers["Location"]) == (303, "/sign-in")


async def test_signing_in_leads_back_to_the_page_that_was_asked_for(site: Site) -> None:
    asked = await site.get("/runs?status=failed&workflow=a%26b")
    form = Seen((await site.get(asked.headers["Location"])).text)
    (wanted,) = [field["value"] for field in form.all("input") if field["name"] == "next"]
    answer = await site.post("/sign-in", {"token": await site.token(), "next": wanted})
    assert (answer.status, answer.headers["Location"]) == (303, "/runs?status=failed&workflow=a%26b")
    assert (await site.get("/runs")).status == 200


async def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(site: Site) -> None:
    answer = await site.post("/sign-in", {"token": await site.token()})
    cookie = answer.cookies["loops_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Lax", "/", "")
    assert int(cookie["max-age"]) == SESSION_LIFETIME.total_seconds()


async def test_a_session_of_a_service_with_https_never_goes_over_plain_http(tmp_path: Path) -> None:
    async with open_site(tmp_path, "https://loops.example.org") as site:
        answer = await site.post("/sign-in", {"token": await site.token()})
        assert answer.cookies["loops_session"]["secure"] is True


@pytest.mark.parametrize(
    "token", ["", "x", "loops_" + "a" * 43, "loops_" + "ä" * 43, "a" * 9000, "loops_\x00", "' OR 1=1 --"]
)
async def test_a_wrong_token_is_told_on_the_same_page(site: Site, token: str) -> None:
    answer = await site.post("/sign-in", {"token": token, "next": "/runs"})
    assert answer.status == 401
    assert not answer.cookies
    page = Seen(answer.text)
    assert "This is not a token of this service" in page.text
    assert [field["name"] for field in page.all("input")] == ["next", "token"]
    assert "value" not in page.all("input")[1]


async def test_a_body_that_is_no_form_holds_no_token(site: Site) -> None:
    headers = {**OWN_FORM, "Content-Type": "application/json"}
    async with site.client.post("/sign-in", data=json.dumps({"token": await site.token()}), headers=headers) as answer:
        assert answer.status == 401


async def test_the_eleventh_wrong_token_in_a_minute_is_told_to_wait_and_a_right_one_never_is(site: Site) -> None:
    token = await site.token()
    for _ in range(10):
        assert (await site.post("/sign-in", {"token": "wrong"})).status == 401
        site.clock.forward(timedelta(seconds=1))
    refused = await site.post("/sign-in", {"token": "wrong"})
    assert refused.status == 429
    assert refused.headers["Retry-After"] == "60"
    assert not refused.cookies
    assert (await site.post("/sign-in", {"token": token})).status == 303
    site.clock.forward(timedelta(seconds=50))
    assert (await site.post("/sign-in", {"token": "wrong"})).status == 401


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example"])
async def test_signing_in_never_leads_to_another_site(site: Site, wanted: str) -> None:
    answer = await site.post("/sign-in", {"token": await site.token(), "next": wanted})
    assert (answer.status, answer.headers["Location"]) == (303, "/deliveries")
    assert "evil" not in (await site.get(f"/sign-in?next={wanted}")).text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://loops.example.org"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", *FORMS])
async def test_forms_of_other_sites_are_refused(site: Site, path: str, headers: dict[str, str]) -> None:
    await site.sign_in()
    answer = await site.post(path, {"token": "x"}, headers)
    assert answer.status == 403
    assert not answer.cookies


async def test_a_form_that_only_says_its_origin_is_taken(site: Site) -> None:
    form = {"token": await site.token()}
    answer = await site.post("/sign-in", form, {"Origin": "http://loops.example.org"})
    assert answer.status == 303


async def test_signing_out_ends_the_session_in_this_browser(site: Site) -> None:
    await site.sign_in()
    answer = await site.post("/sign-out")
    assert (answer.status, answer.headers["Location"]) == (303, "/sign-in")
    assert (await site.get("/runs")).status == 303


async def test_a_session_ends_with_its_token_and_with_its_time(site: Site) -> None:
    await site.sign_in()
    site.clock.forward(SESSION_LIFETIME - timedelta(seconds=1))
    assert (await site.get("/runs")).status == 200
    await site.services.writer.run(lambda connection: connections.revoke_token(connection, "default", "ada", NOW))
    assert (await site.get("/runs")).status == 303
    await site.sign_in(name="eve")
    site.clock.forward(SESSION_LIFETIME)
    assert (await site.get("/runs")).status == 303


@pytest.mark.parametrize("path", CHANGES)
async def test_a_viewer_changes_nothing(site: Site, path: str) -> None:
    await site.sign_in("viewer")
    answer = await site.post(path)
    assert answer.status == 403
    assert "this needs the role editor" in answer.text


@pytest.mark.parametrize(("role", "offered"), [("viewer", []), ("editor", ["enable", "cancel", "resume"])])
async def test_only_what_the_visitor_may_do_is_offered(site: Site, role: Role, offered: list[str]) -> None:
    await site.sign_in(role)
    run = await waiting_run(site, await site.workflow())
    pages = [await read(site, "/workflows"), await read(site, f"/runs/{run}")]
    forms = [form["action"].rpartition("/")[2] for page in pages for form in page.all("form")]
    assert sorted(form for form in forms if form != "sign-out") == sorted(offered)


async def test_rows_of_another_project_are_not_found(site: Site) -> None:
    await site.project("other")
    await site.sign_in()
    delivery = await site.delivery(await site.connection(project="other"), project_id="other")
    workflow = await site.workflow("other")
    run = await site.run(workflow)
    foreign = await site.delivery(await site.connection("of another project", "other"))
    assert "of another project" not in (await site.get(f"/deliveries/{foreign}")).text
    for path in (f"/deliveries/{delivery}", f"/runs/{run}"):
        assert (await site.get(path)).status == 404
    for path in (f"/runs/{run}/cancel", f"/runs/{run}/resume", f"/workflows/{workflow.id}/enable"):
        assert (await site.post(path)).status == 404
    for path in ("/runs", "/workflows"):
        assert not (await read(site, path)).all("table")
    assert delivery not in (await site.get("/deliveries")).text


# What a loop would have done


async def test_a_forecast_tells_day_by_day_what_would_have_come_and_leads_to_deliveries(site: Site) -> None:
    await site.sign_in("viewer")
    limit = {"count": 1, "period": 3600}
    workflow = await site.workflow(trigger_rate_limit=limit)
    connection = await site.connection()
    site.clock.forward(timedelta(days=-2))
    came = [await site.delivery(connection, body=issue_body()) for _ in range(2)]
    site.clock.forward(timedelta(days=1))
    came.append(await site.delivery(connection, body=issue_body("acme/else"), name=HOSTILE))
    await site.delivery(connection, body=b"no json")
    site.clock.forward(timedelta(days=1))
    assert 'name="days"' in (await site.get(f"/workflows/{workflow.id}")).text
    answer = await site.post(f"/workflows/{workflow.id}/forecast", {"days": "7"})
    page = Seen(answer.text)
    assert answer.status == 200
    assert_quiet(page)
    assert set(came) <= {link.removeprefix("/deliveries/") for link in page.links()}
    assert "4 deliveries, 3 events; 1 that cannot be read" in page.text
    assert "Nothing: it creates no task" in page.text
    assert "Day (UTC) Runs Rate limit Filters Sun 2026-07-05 0 0 1 Sat 2026-07-04 1 1 0" in page.text
    assert "On 6 other days of the period nothing came." in page.text
    assert "<img src=x onerror=window.owned=1>" in page.text


def issue_body(repository: str = "acme/widgets") -> bytes:
    return json.dumps(issue(repository)).encode()


@pytest.mark.parametrize("days", ["", "0", "0.5", "91", "7.0", "week", "-1", "9" * 5000, HOSTILE])
async def test_days_of_a_forecast_that_are_none_are_told_above_the_form(site: Site, days: str) -> None:
    await site.sign_in("viewer")
    workflow = await site.workflow()
    answer = await site.post(f"/workflows/{workflow.id}/forecast", {"days": days})
    assert answer.status == 400
    assert "is not a whole number from 1 to 90" in Seen(answer.text).text


# What holds of every page


async def every_page(site: Site, text: str = "plain") -> list[str]:
    """Signs in, and fills a project so that every page has something of every kind to show, all of it foreign text."""
    await site.sign_in(name=text)
    connection = await site.connection(text)
    workflow = await site.workflow(name=text, description=text)
    await site.services.writer.run(
        lambda conn: update(conn, workflow.id, definition=hostile_definition(workflow, text))
    )
    delivery = await site.delivery(
        connection,
        body=json.dumps({"title": text, text: [text]}, ensure_ascii=False).encode(),
        headers={"x-github-event": text, "content-type": text},
        settled=("dispatched", text, 1),
        key=text,
        name=text,
        subject=text,
    )
    raw = await site.delivery(connection, body=text.encode(), settled=("quarantined", text, 0))
    verdict = {"workflow": workflow.id, "version": 1, "stage": text, "passed": False, "reason": text}
    row = {"key": text, "operator": text, "expected": text, "actual": {text: text}, "passed": False}
    event = await site.event(delivery, [{**verdict, "compared": [row]}, {**verdict, "passed": True, "compared": []}])
    run = await site.run(workflow, delivery_id=delivery, event_name=text, event_uuid=event)
    line = {"at": NOW.isoformat(), "text": text}
    error = {"code": text, "message": text, "hint": text}
    step = step_row(step_id=text, name=text, type=text, log=[line], result={text: text}, error=error, status="failed")
    await site.act(run, step, position=text, **{text: text})
    failed = await site.run(workflow)
    await finish(site, failed, Finish("failed", text))
    waiting = await waiting_run(site, workflow)
    told: dict[str, Any] = {
        "reason": text,
        "mend": text,
        "code": text,
        "refs": (text, text),
        "missed": (text,),
        "parts": 3,
    }
    posted, mailed = [
        await stored(site.services.writer, NOW, status, message=said, run_id=run, step_id=text, **told)
        for said, status in ((slack_message(text), "refused"), (email_message(text), "retry"))
    ]
    return [
        "/deliveries",
        "/outbox",
        f"/outbox?run={run}",
        f"/outbox/{posted}",
        f"/outbox/{mailed}",
        "/deliveries?status=quarantined",
        f"/deliveries/{delivery}",
        f"/deliveries/{raw}",
        "/runs",
        f"/runs?workflow={workflow.id}&delivery={delivery}",
        f"/runs/{run}",
        f"/runs/{failed}",
        f"/runs/{waiting}",
        "/workflows",
        f"/workflows/{workflow.id}/forecast",
        "/quotas",
        "/spaces",
    ]


def slack_message(text: str) -> Message:
    return Message(SlackTarget(1, text, thread=text, username=text), "to Slack", text, blocks=({"type": text},))


def email_message(text: str) -> Message:
    target = EmailTarget(99, (Address(text, text),), Address(text, text))
    return Message(target, "by email", text, "plain", html=text, subject=text)


def hostile_definition(workflow: WorkflowRow, text: str) -> dict[str, Any]:
    properties = [{"key": text, "value": text, "operator": text}]
    config = {"type": "event", "filters": {"events": [{"id": text}], "properties": properties}}
    action = {"id": text, "name": text, "type": text}
    return {**workflow.definition, "actions": [{"id": "trigger", "type": "trigger", "config": config}, action]}


async def finish(site: Site, run: str, effect: Finish, step: Any = None) -> None:
    now = site.clock.now()

    def end(connection: sa.Connection) -> None:
        runs.claim(connection, run, 0, OWNER, now)
        runs.finish(connection, run, 0, OWNER, RunState(None, 1), step, effect, now + timedelta(seconds=4))

    await site.services.writer.run(end)


async def waiting_run(site: Site, workflow: WorkflowRow, **columns: Any) -> str:
    run = await site.run(workflow, **columns)
    await site.act(run, step_row())
    step = step_row(step_id="wait", type="delay", name="Wait an hour", position=1, status="waiting", finished_at=None)
    effect = Park("wait", Wait("timer", NOW + timedelta(hours=1)))
    state = RunState("wait", 1, {"who": "ada"})
    await site.services.writer.run(
        lambda connection: runs.park(connection, run, 0, OWNER, state, step, effect, site.clock.now())
    )
    return run


async def test_foreign_text_is_inert_wherever_it_stands(site: Site) -> None:
    shown = "<img src=x onerror=window.owned=1>"
    for path in await every_page(site, HOSTILE):
        answer = await site.get(path)
        assert answer.status == 200, path
        page = Seen(answer.text)
        assert shown in page.text, path
        assert "\\x1b[31m" in page.text, path
        assert "\\u202egnp" in page.text, path
        assert "{{ 7*7 }} {% raw %}" in page.text, path
        assert not re.search("[\x00\x01\x1b\u202e]", answer.text), path
        assert_quiet(page)


def assert_quiet(page: Seen) -> None:
    """Nothing in the page acts or leads away but what this service put there."""
    assert {one["src"].partition("?")[0] for one in page.all("img")} == {"/static/icon.svg"}
    assert {one.get("src", "").partition("?")[0] for one in page.all("script")} <= {"/static/live.js"}
    for tag, attributes in page.elements:
        assert HARMLESS.fullmatch(tag), tag
        assert not [name for name in attributes if name.startswith("on") or name in {"style", "srcdoc", "formaction"}]
        for name in ("href", "action"):
            assert re.match(r"/(?!/)|#", attributes.get(name, "/")), attributes


HARMLESS = re.compile(
    "html|head|meta|title|link|script|body|noscript|header|main|nav|section|article|h1|h2|h3|p|a|div|span|strong|bdi|code"
    "|pre|time|img|form|input|label|button|dl|dt|dd|ul|ol|li|table|thead|tbody|tr|th|td|details|summary"
)


@pytest.mark.parametrize("name", ["plain", HOSTILE])
async def test_the_parts_of_every_page_stand_in_their_order(site: Site, name: str) -> None:
    for path in await every_page(site, name):
        page = await read(site, path)
        assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), path
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), path
        told = [attributes[key] for _, attributes in page.elements for key in LABELS if key in attributes]
        assert set(told) <= set(ids), path
        assert all(cell.get("scope") for cell in page.all("th")), path
        assert page.links()[0] == "#content"


LABELS = ("aria-labelledby", "aria-describedby")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/deliveries", "Deliveries"),
        ("/runs?status=failed", "Runs"),
        ("/outbox?status=sent", "Outbox"),
        ("/workflows", "Workflows"),
    ],
)
async def test_the_navigation_tells_where_the_visitor_is(site: Site, path: str, name: str) -> None:
    await site.sign_in()
    page = await read(site, path)
    (current,) = [link for link in page.all("a") if link.get("aria-current") == "page"]
    assert current["href"] == f"/{name.lower()}"


async def test_every_answer_forbids_what_a_page_does_not_need(site: Site) -> None:
    pages = await every_page(site)
    answers = [
        await site.get(path) for path in [*pages, "/", "/sign-in", "/nowhere", "/runs/unknown", "/runs?status=x"]
    ]
    answers += [
        await site.post("/sign-in", {"token": "x"}),
        await site.post("/runs/unknown/cancel"),
        await site.post("/sign-out"),
    ]
    assert {answer.status for answer in answers} == {200, 303, 400, 401, 404}
    for answer in answers:
        assert answer.headers["Content-Security-Policy"] == (
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        if answer.status != 303:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


async def test_moments_are_exact_for_programs_and_told_in_utc(site: Site) -> None:
    await site.sign_in()
    await site.delivery(await site.connection())
    page = await read(site, "/deliveries")
    assert page.all("time") == [{"datetime": "2026-07-06T12:00:00.123456Z"}]
    assert "2026-07-06 12:00:00 UTC" in page.text


async def test_what_pages_load_is_kept_by_browsers_until_it_changes(site: Site) -> None:
    page = Seen((await site.get("/sign-in")).text)
    (style,) = [link["href"] for link in page.all("link") if link["rel"] == "stylesheet"]
    answer = await site.get(style)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in answer.headers["Cache-Control"]
    other = await site.get("/static/style.css?v=of-another-release")
    assert other.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/static/none.css", "/static/..%2Frendering.py", "/static/%2Fetc%2Fpasswd"])
async def test_nothing_else_of_the_machine_is_served(site: Site, path: str) -> None:
    answer = await site.get(path)
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/json")


async def test_no_page_says_so_to_everybody_and_shows_the_way_to_those_who_are_signed_in(site: Site) -> None:
    answer = await site.get("/nowhere/%3Cscript%3E")
    assert answer.status == 404
    assert not Seen(answer.text).all("nav")
    await site.sign_in()
    assert Seen((await site.get("/nowhere")).text).all("nav")


async def test_a_page_that_is_asked_for_by_a_wrong_method_is_a_page_that_says_so(site: Site) -> None:
    for path, status, allowed in (("/runs", 405, "GET,HEAD"), ("/sign-out", 405, "POST"), ("/nowhere", 404, None)):
        answer = await (site.get(path) if allowed == "POST" else site.post(path))
        assert (answer.status, answer.headers.get("Allow")) == (status, allowed)
        assert "<html" in answer.text
        assert "text/html" in answer.headers["Content-Type"]


@pytest.mark.parametrize("path", ["/hooks/github/1", "/hooks/nobody/1", "/api/nothing", "/api", "/batch/", "/mcp"])
async def test_programs_are_not_answered_with_pages(site: Site, path: str) -> None:
    answer = await site.get(path)
    assert answer.status in {404, 405}
    assert "<html" not in answer.text


class BrokenReader:
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def read(self, fn: Callable[[sa.Connection], Any]) -> Any:
        raise self.error


async def answered_with(folder: Path, error: Exception) -> Answer:
    """A page while reading ends in this error."""
    async with open_site(folder, reader=BrokenReader(error)) as site:
        return await site.get("/runs", Authorization="Bearer loops_" + "a" * 43)


async def test_an_unexpected_error_is_an_id_on_the_page_and_a_traceback_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answered_with(tmp_path, RuntimeError("the password is hunter2"))
    assert answer.status == 500
    (record,) = [record for record in caplog.records if record.name == "loops.pages"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert vars(record)["error_id"] in answer.text
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text


async def test_a_database_that_does_not_answer_asks_for_patience(tmp_path: Path) -> None:
    answer = await answered_with(tmp_path, StoreBusy("the database does not answer", hint="try again in a moment"))
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "5"
    assert "try again in a moment" in answer.text


# Deliveries


async def test_without_anything_the_pages_say_what_to_do(site: Site) -> None:
    await site.sign_in()
    assert "loops integrations create github" in (await read(site, "/deliveries")).text
    assert "loops apply -f loop.yaml --enable" in (await read(site, "/runs")).text
    assert "loops apply -f loop.yaml --enable" in (await read(site, "/workflows")).text
    number = await site.connection("acme")
    assert f"http://loops.example.org/hooks/github/{number}" in (await read(site, "/deliveries")).text


async def test_deliveries_are_listed_with_what_became_of_them(site: Site) -> None:
    await site.sign_in()
    connection = await site.connection("acme")
    first = await site.delivery(connection, key="guid-1", name="push", settled=("dispatched", "", 2))
    await site.delivery(connection, key="guid-2", settled=("ignored", "no loop started; 1 came near", 0))
    page = await read(site, "/deliveries")
    assert page.text.index("guid-2") < page.text.index("guid-1")
    assert "github acme guid-2 ignored no loop started; 1 came near" in page.text
    assert "github acme guid-1 dispatched 2" in page.text
    assert f"/deliveries/{first}" in page.links()
    assert f"/runs?delivery={first}" in page.links()


async def test_a_list_of_deliveries_can_be_narrowed_and_followed_to_its_end(site: Site) -> None:
    await site.sign_in()
    connection = await site.connection()
    for number in range(101):
        await site.delivery(connection, key=f"guid-{number:03}", settled=("dispatched", "", 1))
    await site.delivery(connection, key="other")
    seen: list[str] = []
    path = "/deliveries?status=dispatched"
    for expected in (50, 50, 1):
        page = await read(site, path)
        found = re.findall(r"guid-\d+", page.text)
        assert len(found) == expected
        seen += found
        older = [link["href"] for link in page.all("a") if link.get("rel") == "next"]
        path = older[0] if older else ""
    assert path == ""
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == 101


@pytest.mark.parametrize(
    "path",
    ["/deliveries?status=lost", "/deliveries?before=A'", "/runs?status=lost", "/runs?before=1", "/runs?before=x.y"],
)
async def test_a_list_that_is_asked_for_wrongly_says_what_is_wrong(site: Site, path: str) -> None:
    await site.sign_in()
    answer = await site.get(path)
    assert answer.status == 400
    assert "What mends it" not in answer.text
    assert Seen(answer.text).text.count("one of" if "status" in path else "begin at the newest") == 1


async def test_a_delivery_tells_why_it_did_or_did_not_start_each_loop(site: Site) -> None:
    await site.sign_in()
    delivery = await site.delivery(await site.connection(), settled=("dispatched", "", 1))
    loops = [await site.workflow(name="Triage"), await site.workflow(name="Nightly")]
    compared = [
        {
            "key": "repository",
            "operator": "exact",
            "expected": ["acme/widgets"],
            "actual": "acme/widgets",
            "passed": True,
        },
        {"key": "action", "operator": "exact", "expected": ["opened"], "actual": "closed", "passed": False},
    ]
    stopped = {"stage": "filters", "passed": False, "reason": 'action is "closed", wanted exactly "opened"'}
    started = {"stage": "start", "passed": True, "reason": "every filter and brake passed"}
    event = await site.event(
        delivery,
        [
            {"workflow": loops[1].id, "version": 1, **stopped, "compared": compared},
            {"workflow": loops[0].id, "version": 1, **started, "compared": compared[:1]},
        ],
    )
    run = await site.run(loops[0], delivery_id=delivery, event_uuid=event)
    replay = await site.run(loops[1], delivery_id=delivery, event_uuid=event, replay=1)
    page = await read(site, f"/deliveries/{delivery}")
    assert page.text.index("Triage version 1 started a run") < page.text.index(
        "Nightly version 1 stopped by its filters"
    )
    assert 'action is "closed", wanted exactly "opened"' in page.text
    assert 'action exactly "opened" "closed" does not fit' in page.text
    assert 'repository exactly "acme/widgets" "acme/widgets" fits' in page.text
    assert page.links().count(f"/runs/{run}") == 2  # beside the verdict, and among the runs
    assert page.links().count(f"/runs/{replay}") == 1  # which the verdict of that time did not start


async def test_a_loop_that_no_verdict_is_stored_of_is_held_against_the_delivery_again(site: Site) -> None:
    await site.sign_in()
    workflow = await site.workflow(name="Triage")
    await site.services.workflows.enable("default", workflow.id, "ada")
    payload = {"action": "opened", "repository": {"id": 1, "full_name": "acme/gadgets", "private": False}}
    headers = {"content-type": "application/json", "x-github-event": "issues"}
    body = json.dumps({**payload, "issue": {"number": 1, "title": "t"}, "sender": {"login": "ada", "id": 1}}).encode()
    delivery = await site.delivery(await site.connection(), body=body, headers=headers)
    page = await read(site, f"/deliveries/{delivery}")
    assert "Another loop" in page.text
    assert 'Triage stopped by its filters: repository is "acme/gadgets", wanted exactly "acme/widgets"' in page.text
    assert 'repository exactly "acme/widgets" "acme/gadgets" does not fit' in page.text


async def test_a_delivery_is_found_by_the_id_that_its_sender_gave_it(site: Site) -> None:
    await site.sign_in()
    await site.delivery(await site.connection(), key="72d3162e-cc78-11e3-81ab-4c9367dc0958", name="ping")
    page = await read(site, "/deliveries/72d3162e-cc78-11e3-81ab-4c9367dc0958")
    assert "ping from github" in page.text


async def test_headers_and_body_are_shown_as_they_came(site: Site) -> None:
    await site.sign_in()
    headers = {"content-type": "application/json", "x-github-delivery": "guid", "x-github-event": "issues"}
    delivery = await site.delivery(await site.connection(), body=b'{"id":1.0,"id":2}', headers=headers)
    answer = await site.get(f"/deliveries/{delivery}")
    assert "{\n  &#34;id&#34;: 1.0,\n  &#34;id&#34;: 2\n}" in answer.text
    assert "x-github-delivery guid" in Seen(answer.text).text


async def test_a_delivery_whose_body_is_no_longer_kept_still_has_its_page(site: Site) -> None:
    await site.sign_in()
    delivery = await site.delivery(await site.connection())
    await site.services.writer.run(
        lambda connection: connection.execute(deliveries_table.update().values(body=None, headers=None))
    )
    page = await read(site, f"/deliveries/{delivery}")
    assert "Headers and body are no longer kept" in page.text
    assert not page.all("pre")


@pytest.mark.parametrize("status", ["accepted", "quarantined", "ignored"])
async def test_a_delivery_without_verdicts_says_why_there_are_none(site: Site, status: str) -> None:
    await site.sign_in()
    settled = None if status == "accepted" else (status, "the database broke", 0)
    delivery = await site.delivery(await site.connection(), settled=settled)
    answer = await site.get(f"/deliveries/{delivery}")
    told = {"accepted": "It waits to be held", "quarantined": "set aside", "ignored": "the database broke"}
    assert told[status] in answer.text
    assert ("data-live" in answer.text) == (status == "accepted")


@pytest.mark.parametrize(
    "path", ["/deliveries/unknown", "/runs/unknown", "/runs/%00", "/deliveries/%0A", "/runs/" + "x" * 400]
)
async def test_what_is_not_there_is_not_found(site: Site, path: str) -> None:
    await site.sign_in()
    answer = await site.get(path)
    assert answer.status == 404
    assert Seen(answer.text).all("h1")


# Runs


async def test_runs_are_listed_with_how_they_stand(site: Site) -> None:
    await site.sign_in()
    workflow = await site.workflow(name="Triage")
    ended = await site.run(workflow)
    await finish(site, ended, Finish("failed", "log: the disk is full"))
    site.clock.forward(timedelta(seconds=30))
    waiting = await waiting_run(site, workflow)
    site.clock.forward(timedelta(seconds=12))
    page = await read(site, "/runs")
    assert "Triage GitHub failed log: the disk is full 4.0 s" in page.text
    assert "Triage GitHub waiting until 2026-07-06 13:00:00 UTC 12 s so far" in page.text
    assert page.text.index("waiting until") < page.text.index("the disk is full")
    assert {f"/runs/{ended}", f"/runs/{waiting}"} <= set(page.links())
    failed = await read(site, "/runs?status=failed")
    assert f"/runs/{ended}" in failed.links()
    assert f"/runs/{waiting}" not in failed.links()


async def test_a_list_of_runs_can_be_narrowed_and_followed_to_its_end(site: Site) -> None:
    await site.sign_in()
    workflow, other = await site.workflow(name="Triage"), await site.workflow(name="Nightly")
    for _ in range(51):
        await site.run(workflow)
    await site.run(other)
    page = await read(site, f"/runs?workflow={workflow.id}")
    (older,) = [link["href"] for link in page.all("a") if link.get("rel") == "next"]
    last = await read(site, older)
    ids = [link for one in (page, last) for link in one.links() if re.fullmatch(r"/runs/[0-9a-f-]{36}", link)]
    assert len(ids) == len(set(ids)) == 51
    assert "Nightly" not in page.text + last.text


async def test_a_run_is_told_step_by_step(site: Site) -> None:
    await site.sign_in()
    delivery = await site.delivery(await site.connection())
    run = await site.run(await site.workflow(name="Triage"), delivery_id=delivery)
    await site.act(run, step_row(), who="ada", count=2)
    error = {"code": "step.unavailable", "message": "the sender is not set up", "hint": "set LOOPS_MODEL"}
    step = step_row(step_id="wait", name="Tell them", status="failed", position=1, result=None, log=[], error=error)
    await site.services.writer.run(
        lambda connection: runs.finish(
            connection,
            run,
            0,
            OWNER,
            RunState(None, 2, {"who": "ada"}),
            step,
            Finish("failed", "wait: not set up"),
            NOW,
        )
    )
    answer = await site.get(f"/runs/{run}")
    page = Seen(answer.text)
    assert "Triage failed wait: not set up" in page.text
    assert f"/deliveries/{delivery}" in page.links()
    assert "Write a line function completed 12:00:00.123 42 ms 12:00:00.123 ada opened issue 42" in page.text
    assert '{ "text": "ada opened issue 42" }' in page.text
    assert "Tell them function failed" in page.text
    assert "the sender is not set up set LOOPS_MODEL step.unavailable" in page.text
    assert '{ "who": "ada" }' in page.text
    assert "data-live" not in answer.text
    assert not page.all("script")


async def test_a_running_run_shows_the_step_that_acts_now_and_refreshes(site: Site) -> None:
    await site.sign_in()
    run = await site.run(await site.workflow())
    await site.act(run, step_row())
    answer = await site.get(f"/runs/{run}")
    page = Seen(answer.text)
    assert "Wait an hour delay running" in page.text
    assert f'data-live="/runs/{run}/live"' in answer.text
    assert len(page.all("script")) == 1
    assert "Show what has happened since" in page.text


async def test_a_waiting_run_says_until_when(site: Site) -> None:
    await site.sign_in()
    page = await read(site, f"/runs/{await waiting_run(site, await site.workflow())}")
    assert "Waits until 2026-07-06 13:00:00 UTC" in page.text


async def test_a_run_whose_workflow_was_deleted_keeps_its_page(site: Site) -> None:
    await site.sign_in()
    workflow = await site.workflow()
    run = await site.run(workflow)
    without_name = sa.text("PRAGMA foreign_keys = OFF")
    await site.services.writer.run(lambda connection: connection.execute(without_name))
    await site.services.writer.run(
        lambda connection: connection.execute(sa.text("UPDATE loops_runs SET workflow_id = 'gone', version = 9"))
    )
    assert "gone" in (await read(site, f"/runs/{run}")).text
    assert "gone" in (await read(site, "/runs")).text


async def test_long_logs_and_results_are_cut_and_say_so(site: Site) -> None:
    await site.sign_in()
    run = await site.run(await site.workflow())
    lines = [{"at": NOW.isoformat(), "text": f"{number} " + "x" * 15_990} for number in range(10)]
    await site.act(run, step_row(log=lines, result="y" * 30_000))
    answer = await site.get(f"/runs/{run}")
    assert "6 more lines" in answer.text
    assert "This is the beginning of 30000 characters." in answer.text
    assert answer.text.count("y" * 20_000) == 1
    assert len(answer.text) < 100_000


async def test_cancelling_a_waiting_run_ends_it(site: Site) -> None:
    await site.sign_in("editor")
    run = await waiting_run(site, await site.workflow())
    answer = await site.post(f"/runs/{run}/cancel")
    assert (answer.status, answer.headers["Location"]) == (303, f"/runs/{run}")
    page = await read(site, f"/runs/{run}")
    assert "cancelled on request" in page.text
    assert site.engine.dropped == [(run, 1)]
    assert not [form for form in page.all("form") if form["action"].startswith("/runs")]


async def test_a_waiting_run_goes_on_when_asked_and_the_second_who_asks_is_told(site: Site) -> None:
    await site.sign_in("editor")
    run = await waiting_run(site, await site.workflow())
    assert (await site.post(f"/runs/{run}/resume")).status == 303
    assert site.engine.woken == [(run, 1)]
    again = await site.post(f"/runs/{run}/resume")
    assert again.status == 409
    assert "only a waiting run can be resumed" in Seen(again.text).text
    assert f'data-live="/runs/{run}/live"' in again.text


async def test_cancelling_a_run_that_is_over_is_told_on_its_page(site: Site) -> None:
    await site.sign_in("editor")
    run = await site.run(await site.workflow(name="Triage"))
    await finish(site, run, Finish("completed", "Logged"))
    answer = await site.post(f"/runs/{run}/cancel")
    assert answer.status == 409
    page = Seen(answer.text)
    assert f"run {run} is completed already" in page.text
    assert "Triage completed Logged" in page.text


# Workflows


async def test_workflows_are_listed_with_what_starts_them(site: Site) -> None:
    await site.sign_in()
    await site.workflow(name="Triage", description="Looks at new issues")
    page = await read(site, "/workflows")
    assert (
        'Triage Looks at new issues GitHub: issues opened or reopened repository exactly "acme/widgets" '
        "draft 1 Enable" in page.text
    )


async def test_a_workflow_is_enabled_and_disabled_in_the_name_of_the_token(site: Site) -> None:
    await site.sign_in("editor", "ada")
    workflow = await site.workflow()
    assert (await site.post(f"/workflows/{workflow.id}/enable")).status == 303
    row = await site.services.workflows.get("default", workflow.id)
    assert (row.status, row.enabled_by) == ("active", "ada")
    assert "active 1 Disable" in (await read(site, "/workflows")).text
    assert (await site.post(f"/workflows/{workflow.id}/disable")).status == 303
    assert (await site.services.workflows.get("default", workflow.id)).status == "draft"


async def test_switching_off_a_workflow_that_runs_asks_what_becomes_of_its_runs(site: Site) -> None:
    await site.sign_in("editor", "ada")
    for running, status in (("drain", "waiting"), ("cancel", "cancelled")):
        workflow = await site.workflow(name=running)
        await site.services.workflows.enable("default", workflow.id, "ada")
        run = await waiting_run(site, workflow)
        # From the list there is no choice yet: its answer is the page that has it.
        asked = await site.post(f"/workflows/{workflow.id}/disable")
        assert asked.status == 409
        page = Seen(asked.text)
        assert "It is not disabled: 1 run of workflow" in page.text
        assert "1 run is under way (1 waiting)" in page.text
        (action,) = {form["action"] for form in page.all("form") if "/disable" in form["action"]}
        assert [button["value"] for button in page.all("button") if button.get("name") == "running"] == [
            "drain",
            "cancel",
        ]
        answer = await site.post(action, {"running": running})
        assert (answer.status, answer.headers["Location"]) == (303, f"/workflows/{workflow.id}")
        assert (await site.services.workflows.get("default", workflow.id)).status == "draft"
        found = await site.services.reader.read(partial(run_queries.get, project_id="default", run_id=run))
        assert found["status"] == status


async def test_a_workflow_that_is_enabled_and_starts_nothing_says_so(site: Site) -> None:
    await site.sign_in("editor", "ada")
    start = {"id": "trigger", "type": "trigger", "config": {"type": "schedule"}}
    workflow = await site.workflow(name="Nightly", actions=[start, *WORKFLOW["actions"][1:]])
    answer = await site.post(f"/workflows/{workflow.id}/enable")
    assert answer.status == 200
    (alert,) = [one for one in Seen(answer.text).all("p") if one.get("role") == "alert"]
    assert alert
    assert "Nightly is enabled. A warning: schedules: it has none yet, so nothing starts it" in Seen(answer.text).text
    assert (await site.services.workflows.get("default", workflow.id)).status == "active"


async def test_a_workflow_that_cannot_be_enabled_says_why_and_one_that_is_archived_is_left_out(site: Site) -> None:
    await site.sign_in("editor")
    broken, archived = await site.workflow(name="Broken"), await site.workflow(name="Archived")
    await site.services.writer.run(lambda connection: update(connection, broken.id, definition={"name": "Broken"}))
    await site.services.workflows.archive("default", archived.id)
    refused = await site.post(f"/workflows/{broken.id}/enable")
    assert refused.status == 400
    (alert,) = [one for one in Seen(refused.text).all("p") if one.get("role") == "alert"]
    assert alert
    assert "actions" in refused.text
    assert (await site.post(f"/workflows/{archived.id}/enable")).status == 409
    assert f"/runs?workflow={archived.id}" not in (await read(site, "/workflows")).links()


async def test_an_enabled_workflow_that_cannot_listen_says_why(site: Site) -> None:
    await site.sign_in()
    workflow = await site.workflow(name="Triage")
    await site.services.workflows.enable("default", workflow.id, "ada")
    definition = {
        "actions": [{"type": "trigger", "config": {"type": "event", "filters": {"properties": [{"key": 1}]}}}]
    }

    def spoil(connection: sa.Connection) -> None:
        update(connection, workflow.id, definition=definition, changed_epoch=bump_epoch(connection))

    await site.services.writer.run(spoil)
    await site.services.reader.read(site.services.definitions.refresh)
    assert "active Cannot listen:" in (await read(site, "/workflows")).text
