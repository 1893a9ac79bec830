"""The pages in a real browser, on a real service."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from loops.store import schedules
from loops.store.schedules import OccurrenceRow
from server.demo_payloads import issue_opened
from tests.doubles.browser import CONTRAST, Browser, Page, chromium, find_chromium
from tests.doubles.tasks import TaskRows, a_round, request
from tests.integration.serving import Api, fresh_project, listening, running, settings_for, workflow

PROGRAM = find_chromium()
OTHER_NAME = "loops.test"
HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script><svg onload=window.owned=1>\u202e\x1b[31m"
TAB, ENTER, SPACE = ("Tab", 9, ""), ("Enter", 13, "\r"), (" ", 32, " ")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine: chromium, google-chrome or chrome"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    assert PROGRAM is not None
    rules = f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1"
    async with chromium(PROGRAM, tmp_path_factory.mktemp("profile"), rules) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    page = await browser.page()
    yield page
    await page.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[aiohttp.ClientSession, Api]]:
    folder: Path = tmp_path_factory.mktemp("service")
    settings = settings_for(folder, f"sqlite:///{folder / 'loops.db'}")
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        yield session, await fresh_project(service, session)


@pytest_asyncio.fixture(loop_scope="module")
async def api(session: tuple[aiohttp.ClientSession, Api]) -> Api:
    """A project of the test's own."""
    client, first = session
    return await fresh_project(first.service, client)


async def sign_in(page: Page, api: Api, path: str = "/deliveries", host: str = "127.0.0.1") -> None:
    """Through the form, as a person does."""
    base = f"http://{host}:{urlsplit(api.service.url).port}"
    await page.goto(f"{base}{path}")
    await page.until("document.activeElement.id === 'token'")
    await page.type(api.token)
    await page.press(*ENTER)
    await page.until(f"location.pathname === '{path}' && document.readyState === 'complete'")


async def started_run(api: Api, document: object, **changes: object) -> tuple[str, str]:
    """A delivery and the run that it started, once that is over or waits."""
    await api.post("workflows", document)
    payload = issue_opened()
    payload["issue"] |= changes
    delivery = await api.deliver(await api.github(), "issues", payload)
    busy = ("queued", "running")
    found = await api.until(f"runs?delivery={delivery}", lambda runs: runs["items"][0]["status"] not in busy)
    return delivery, found["items"][0]["id"]


async def test_a_person_finds_out_with_the_keyboard_alone_why_a_loop_ran(page: Page, api: Api) -> None:
    delivery, run = await started_run(api, listening("Note issues"))
    await sign_in(page, api)
    await follow(page, f"/deliveries/{delivery}")
    assert "every filter and brake passed" in await page.text()
    await follow(page, f"/runs/{run}")
    assert "noted ada" in await page.text()


async def follow(page: Page, path: str) -> None:
    """Go with the tab key to the link, which must be seen to have the focus, and press enter."""
    for _ in range(80):
        await page.press(*TAB)
        if await page.evaluate("document.activeElement.getAttribute('href')") == path:
            break
    assert await page.evaluate("document.activeElement.getAttribute('href')") == path
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await page.press(*ENTER)
    await page.until(f"location.pathname === '{path}' && document.readyState === 'complete'")


async def test_the_first_press_of_tab_leads_past_the_navigation(page: Page, api: Api) -> None:
    await sign_in(page, api)
    await page.press(*TAB)
    assert await page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    await page.press(*ENTER)
    await page.until("document.activeElement.id === 'content'")


async def test_text_from_outside_does_nothing_in_a_browser(page: Page, api: Api) -> None:
    document = {**listening("x"), "name": HOSTILE}
    document["actions"][1]["name"] = HOSTILE
    document["actions"][1]["config"]["inputs"]["text"]["value"] = "{event.properties.title}"
    delivery, run = await started_run(api, document, title=HOSTILE)
    await sign_in(page, api)
    for path in ("/deliveries", f"/deliveries/{delivery}", "/runs", f"/runs/{run}", "/workflows"):
        await page.goto(f"{api.service.url}{path}")
        await asyncio.sleep(0.1)
        if path != "/deliveries":
            assert "<img src=x onerror=" in await page.text()
        assert await page.evaluate("window.owned") is None
        assert await page.evaluate("document.querySelectorAll('svg, main img, main script').length") == 0
    assert page.dialogs == []
    assert page.refused == []  # nothing had to be stopped by the policy: there was nothing to stop
    assert {urlsplit(url).netloc for url in page.requested} == {urlsplit(api.service.url).netloc}


async def test_what_got_into_a_page_in_spite_of_all_would_not_run(page: Page, api: Api) -> None:
    await sign_in(page, api)
    await page.evaluate("document.querySelector('main').innerHTML = `<img src=x onerror='window.owned=1'>`")
    await page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.owned=1'}))"
    )
    await page.evaluate("fetch('https://example.org/').catch(() => 0)")
    await asyncio.sleep(0.2)
    assert await page.evaluate("window.owned") is None
    assert len(page.refused) >= 3


async def test_an_open_run_changes_before_the_eyes_and_keeps_what_was_opened(page: Page, api: Api) -> None:
    _, run = await started_run(api, two_waits())
    await sign_in(page, api, f"/runs/{run}")
    await page.until("document.querySelector('#live h1 + .status').textContent === 'waiting'")
    await page.evaluate("window.stayed = true; document.querySelector('#confirm-cancel summary').focus()")
    await page.press(*SPACE)
    await page.until("document.querySelector('#confirm-cancel').open")
    await page.until("document.querySelectorAll('.step').length === 2")
    assert await page.evaluate("document.querySelector('#confirm-cancel').open")
    assert await page.evaluate("document.activeElement.localName") == "summary"
    await page.until("document.querySelector('#live h1 + .status').textContent === 'completed'")
    await page.until("document.querySelector('#news').textContent === 'Run completed'")
    assert await page.evaluate("window.stayed")
    assert await page.evaluate("document.title") == "Two waits: completed · Loops"
    seen = len(page.requested)
    await asyncio.sleep(2.5)
    assert len(page.requested) == seen  # what is over is not asked for again


async def task_at_work(api: Api, title: str = "Find the cause") -> TaskRows:
    """A run that waits, and a task of it that nobody but the test works on."""
    _, run = await started_run(api, workflow("Long", listening("x")["actions"][0]["config"], "1h"))
    item = await api.get(f"runs/{run}")
    now = datetime.now(UTC)
    task = TaskRows(api.service.services.writer, api.project, item["workflow"], run, "wait", title, began=now)
    await (await task.create(request(HOSTILE, title=HOSTILE))).begin()
    return task


async def test_the_rounds_of_an_agent_appear_while_it_works_and_the_reader_keeps_his_place(
    page: Page, api: Api
) -> None:
    task = await task_at_work(api)
    lines = [f"line {number}" for number in range(200)]
    await task.keep(a_round(1, ("search", "{}", json.dumps({"ok": True, "result": lines})), thought="I look first."))
    await sign_in(page, api, f"/runs/{task.run_id}")
    card = f"#round-{task.id}-1"
    result = f"{card}-call-1-result"
    await page.evaluate(f"window.stayed = true; document.querySelector('{card}-thought').open = true")
    await page.evaluate(f"document.querySelector('{result}').open = true")
    await page.evaluate(
        f"window.card = document.querySelector('{card}'); document.querySelector('{result} pre').focus()"
    )
    await page.evaluate(f"document.querySelector('{result} pre').scrollTop = 120; scrollTo(0, 300)")

    await task.tell("calling", 2, "event_read", text="", since=datetime.now(UTC))
    await page.until("document.querySelector('.doing').textContent.startsWith('Round 2: calling event_read')")
    await page.until("document.querySelector('#news').textContent === 'round 2: calling event_read'")
    await task.keep(a_round(2, ("event_read", "{}", ""), text=HOSTILE))
    await page.until(f"document.querySelector('#round-{task.id}-2 .mark-act') !== null")
    await task.keep(a_round(2, ("event_read", "{}", '{"ok": true}'), text=HOSTILE), a_round(3, text="Nearly done."))
    await page.until(f"document.querySelector('#round-{task.id}-3') !== null")
    await page.until(f"document.querySelector('#round-{task.id}-2 .mark-yes') !== null")

    assert await page.evaluate(f"window.stayed && window.card === document.querySelector('{card}')")
    assert await page.evaluate(f"document.querySelector('{card}-thought').open")
    assert await page.evaluate(f"document.querySelector('{result}').open")
    assert await page.evaluate(f"document.querySelector('{result} pre').scrollTop") == 120
    assert await page.evaluate(f"document.activeElement === document.querySelector('{result} pre')")
    assert await page.evaluate("scrollY") == 300
    assert await page.evaluate("window.owned") is None
    rounds = "[...document.querySelectorAll('.round h5')].map(one => one.textContent).join()"
    assert await page.evaluate(rounds) == "Round 1,Round 2,Round 3"


async def test_the_page_of_a_run_is_asked_for_new_rounds_alone_and_no_more_when_it_is_over(
    page: Page, api: Api
) -> None:
    task = await task_at_work(api)
    await task.keep(*(a_round(number, text=f"words of round {number}") for number in range(1, 41)))
    await sign_in(page, api, f"/runs/{task.run_id}")
    await page.until("document.querySelectorAll('.round').length === 40")
    await asyncio.sleep(2.2)  # the page has asked twice, and shows all that it had
    assert await page.evaluate("document.querySelectorAll('.round .said').length") == 40
    assert any(address.endswith(f"/live?after={task.id}.40") for address in page.requested)
    await task.finish()
    await api.post(f"runs/{task.run_id}/resume")
    await page.until("document.querySelector('#live h1 + .status').textContent === 'completed'")
    await page.until("document.querySelector('.report') !== null")
    seen = len(page.requested)
    await asyncio.sleep(2.5)
    assert len(page.requested) == seen


def two_waits() -> dict[str, object]:
    document = workflow("Two waits", listening("x")["actions"][0]["config"], "3s")
    document["actions"][2] |= {"type": "delay", "config": {"delay_duration": "3s"}}
    return document


async def test_without_scripts_a_run_is_read_and_cancelled_all_the_same(page: Page, api: Api) -> None:
    _, run = await started_run(api, workflow("Long", listening("x")["actions"][0]["config"], "1h"))
    await api.until(f"runs/{run}", lambda row: row["status"] == "waiting")
    await page.send("Emulation.setScriptExecutionDisabled", value=True)
    await sign_in(page, api, f"/runs/{run}")
    assert "Show what has happened since" in await page.text()
    for selector in ("#confirm-cancel summary", "#confirm-cancel .danger"):
        await page.click(selector)
    await page.until("document.querySelector('#live h1 + .status').textContent === 'cancelled'")
    assert (await api.get(f"runs/{run}"))["status"] == "cancelled"


async def test_signing_in_works_over_plain_http_from_another_machine(page: Page, api: Api) -> None:
    await sign_in(page, api, host=OTHER_NAME)
    assert not await page.evaluate("isSecureContext")  # else the browser would say more of itself than it does there
    assert await page.evaluate("location.hostname") == OTHER_NAME


async def shown_task(api: Api) -> TaskRows:
    """A task with a card of every kind in it."""
    task = await task_at_work(api, title="A title " * 20)
    wide = json.dumps({"result": "wide" * 200})
    await task.keep(
        a_round(1, ("search", wide, wide), ("search", "{}", f"NOT_FOUND: {'x' * 300}"), thought="Hm.", text="y" * 300),
        a_round(2, ("shell", "{}", ""), notice="Go on.", guard="timeout", finish="length", requests=2, elided=True),
    )
    await task.tell("calling", 3, "shell", text="z" * 300)
    return task


async def shown_schedule(api: Api) -> str:
    """A schedule over the changes of clocks, with an occurrence of each outcome; its id."""
    document = workflow("A loop that is started by the clock, and by it alone", {"type": "schedule"})
    flow = await api.post("workflows", document)
    rule = {"rrule": "FREQ=MONTHLY;BYDAY=-1SU", "starts_at": "2026-01-01T02:30:00", "timezone": "Europe/Berlin"}
    made = await api.post(f"workflows/{flow['id']}/schedules", rule)
    now = datetime.now(UTC)
    rows = [
        OccurrenceRow(made["id"], now - timedelta(hours=number), outcome, "for quite a long reason", None, now)
        for number, outcome in enumerate(("ran", "late", "missed", "skipped", "refused"), start=1)
    ]
    await api.service.services.writer.run(lambda connection: schedules.decide(connection, rows))
    return str(made["id"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_word_stands_out_from_its_ground(page: Page, api: Api, scheme: str) -> None:
    delivery, run = await started_run(api, listening("Note issues"))
    task, schedule = await shown_task(api), await shown_schedule(api)
    await api.post("workflows", listening("Note what is closed", action="closed"))
    await page.prefer(scheme)
    await sign_in(page, api)
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(16, 20, 27)") == (scheme == "dark")
    for path in (
        "/deliveries",
        f"/deliveries/{delivery}",
        "/runs",
        f"/runs/{run}",
        f"/runs/{task.run_id}",
        f"/workflows/{task.workflow_id}",
        f"/workflows/{task.workflow_id}/forecast",
        "/outbox",
        "/schedules",
        f"/schedules/{schedule}",
        "/workflows",
        "/nowhere",
        "/sign-in",
    ):
        await page.goto(f"{api.service.url}{path}")
        assert await page.evaluate(CONTRAST) == [], path


async def test_a_forecast_is_asked_for_on_the_page_of_a_loop_and_fits_a_small_screen(page: Page, api: Api) -> None:
    delivery, _ = await started_run(api, listening("Note issues"))
    flow = (await api.get("workflows"))["items"][0]["id"]
    await page.send("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
    await sign_in(page, api, f"/workflows/{flow}")
    await page.evaluate("document.querySelector('.ask').scrollIntoView()")
    await page.click(".ask button")
    await page.until(f"document.querySelector('main a[href=\"/deliveries/{delivery}\"]') !== null")
    assert await page.evaluate("location.pathname") == f"/workflows/{flow}/forecast"
    assert await page.evaluate(CONTRAST) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert (page.errors, page.refused) == ([], [])


async def test_no_page_is_wider_than_a_small_screen(page: Page, api: Api) -> None:
    delivery, run = await started_run(api, listening("A loop with quite a long name, such as people give"))
    task, schedule = await shown_task(api), await shown_schedule(api)
    await page.send("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
    await sign_in(page, api)
    for path in (
        "/deliveries",
        f"/deliveries/{delivery}",
        "/runs",
        f"/runs/{run}",
        f"/runs/{task.run_id}",
        f"/workflows/{task.workflow_id}",
        f"/workflows/{task.workflow_id}/forecast",
        "/outbox",
        "/schedules",
        f"/schedules/{schedule}",
        "/workflows",
        "/nowhere",
        "/sign-in",
    ):
        await page.goto(f"{api.service.url}{path}")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
