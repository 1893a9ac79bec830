"""The outbox in a real browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import outbox
from notify.message import Message, SlackTarget
from tests.doubles.browser import CONTRAST, Browser, Page, chromium, find_chromium
from tests.doubles.messages import TO_ADA, stored
from tests.doubles.site import NOW, Site, open_site

PROGRAM = find_chromium()
HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>\u202e\x1b[31m " + "long" * 200
TAB, ENTER = ("Tab", 9, ""), ("Enter", 13, "\r")
STATUSES = ("pending", "sending", "sent", "refused", "retry", "uncertain", "shown", "withdrawn")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine: chromium, google-chrome or chrome"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    assert PROGRAM is not None
    async with chromium(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        # What TO_SLACK and TO_ADA name.
        assert [await site.connection("team", kind=kind) for kind in ("slack", "smtp")] == [1, 2]
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    page = await browser.page()
    yield page
    await page.close()


def address(site: Site, path: str) -> str:
    return str(site.client.make_url(path))


async def sign_in(page: Page, site: Site, path: str) -> None:
    """Through the form, as a person does."""
    token = await site.token()
    await page.goto(address(site, path))
    await page.until("document.activeElement.id === 'token'")
    await page.type(token)
    await page.press(*ENTER)
    await page.until(f"location.pathname === '{path}' && document.readyState === 'complete'")


async def put(site: Site, status: str, message: Message | None = None) -> str:
    told = {"reason": "the service said why", "mend": "what would mend it", "code": "some_code"}
    return await stored(site.services.writer, NOW, status, message=message, run_id="r1", step_id="notify", **told)


async def test_a_message_is_sent_again_by_keys_alone(page: Page, site: Site) -> None:
    message_id = await put(site, "uncertain", Message(TO_ADA, "k", "text"))
    await sign_in(page, site, f"/outbox/{message_id}")
    for _press in range(20):
        await page.press(*TAB)
        if await page.evaluate("document.activeElement.matches('#confirm-send summary')"):
            break
    await page.press(*ENTER)
    await page.until("document.querySelector('#confirm-send').open")
    assert "arrives twice" in await page.text()
    await page.press(*TAB)
    await page.press(*ENTER)
    await page.until("document.querySelector('#live h1 + .status').textContent === 'pending'")
    assert page.dialogs == []


async def test_the_page_of_a_message_follows_it_until_it_rests(page: Page, site: Site) -> None:
    message_id = await put(site, "retry")
    await sign_in(page, site, f"/outbox/{message_id}")

    def sent(connection: sa.Connection) -> None:
        outbox.change(connection, outbox.get(connection, message_id), {"status": "sent", "due_at": None}, NOW)

    await site.services.writer.run(sent)
    await page.until("document.querySelector('#live h1 + .status').textContent === 'sent'")
    await page.until("document.querySelector('#news').textContent === 'Message sent'")


async def test_what_a_message_says_never_acts(page: Page, site: Site) -> None:
    message = Message(SlackTarget(1, HOSTILE, username=HOSTILE), "k", HOSTILE, html=HOSTILE, subject=HOSTILE)
    message_id = await put(site, "refused", message)
    await sign_in(page, site, f"/outbox/{message_id}")
    for path in (f"/outbox/{message_id}", "/outbox"):
        await page.goto(address(site, path))
        assert await page.evaluate("window.owned === undefined"), path
        assert "<img src=x" in await page.text()
    assert page.refused == []
    assert {one.split("/")[2] for one in page.requested if one.startswith("http")} == {address(site, "/").split("/")[2]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_word_of_the_outbox_stands_out_from_its_ground(page: Page, site: Site, scheme: str) -> None:
    ids = [await put(site, status) for status in STATUSES]
    await page.prefer(scheme)
    await sign_in(page, site, "/outbox")
    assert await page.evaluate(CONTRAST) == []
    for message_id in ids:
        await page.goto(address(site, f"/outbox/{message_id}"))
        if await page.evaluate("document.querySelector('#confirm-send') !== null"):
            await page.click("#confirm-send summary")
        assert await page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("path", ["/deliveries", "/runs", "/outbox", "/workflows"])
async def test_a_list_is_read_on_a_small_screen_without_scrolling_sideways(page: Page, site: Site, path: str) -> None:
    workflow = await site.workflow()
    reason = "no loop listens for what was told of " + "a/very-long-name" * 9
    delivery = await site.delivery(await site.connection(), settled=("ignored", reason, 1))
    await site.run(workflow, delivery_id=delivery)
    await put(site, "refused", Message(SlackTarget(1, "C0123456789" * 9), "k", "text"))
    await page.send("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=True)
    await sign_in(page, site, path)
    assert await page.evaluate("[...document.querySelectorAll('tbody tr')].length") == 1
    hidden = "[...document.querySelectorAll('.table')].filter(one => one.scrollWidth > one.clientWidth).length"
    assert await page.evaluate(hidden) == 0
    assert await page.evaluate("document.documentElement.scrollWidth") <= 400
    assert await page.evaluate("document.querySelector('tbody .status').getBoundingClientRect().right") <= 400


async def test_what_was_compared_is_whole_on_a_small_screen(page: Page, site: Site) -> None:
    workflow = await site.workflow()
    actual = "an-organisation-with-a-long-name/" + "and-a-repository-too" * 5
    one = {"key": "repository", "operator": "exact", "expected": ["acme/widgets"], "actual": actual, "passed": False}
    verdict = {"workflow": workflow.id, "version": 1, "stage": "filters", "passed": False, "reason": "why"}
    delivery = await site.delivery(await site.connection())
    await site.event(delivery, [{**verdict, "compared": [one]}])
    await page.send("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=True)
    await sign_in(page, site, f"/deliveries/{delivery}")
    box = "document.querySelector('.compared td[data-label=Found] bdi').getBoundingClientRect()"
    assert await page.evaluate(f"{box}.right") <= 400
    assert await page.evaluate("document.querySelector('.compared').closest('.table').scrollWidth") <= 400
    assert actual in await page.text()


async def test_the_outbox_is_no_wider_than_a_small_screen(page: Page, site: Site) -> None:
    message = Message(SlackTarget(1, HOSTILE, thread="1751800000.000100"), "k", HOSTILE, subject=HOSTILE)
    ids = [await put(site, "refused", message), await put(site, "uncertain")]
    await page.send("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
    await sign_in(page, site, "/outbox")
    for path in ("/outbox", *(f"/outbox/{message_id}" for message_id in ids)):
        await page.goto(address(site, path))
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
        if path != "/outbox":
            await page.click("#confirm-send summary")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
