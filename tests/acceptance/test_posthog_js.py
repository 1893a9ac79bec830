"""posthog-js as it comes from npm, in a real browser, pointed at a real service by a page of another origin.

It is taken from `node_modules` of this tree, or where LOOPS_TEST_NPM=1 allows it, fetched by npm.
"""

import json
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.conftest import MAY_ASK_NPM
from tests.doubles.browser import chromium, find_chromium
from tests.integration.serving import Api, fresh_project, running, settings_for, workflow

PACKAGE = "posthog-js@1.449.2"
KEY = "phc_of_the_browser"
PROGRAM = find_chromium()
HERE = Path(__file__).parents[2] / "node_modules" / "posthog-js"
MAY_FETCH = MAY_ASK_NPM and shutil.which("npm") is not None

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine: chromium, google-chrome or chrome"),
    pytest.mark.skipif(
        not (MAY_FETCH or HERE.exists()),
        reason="no posthog-js: npm install posthog-js, or have npm and set LOOPS_TEST_NPM=1",
    ),
]

_PAGE = """<!doctype html><title>A shop</title><script src="/array.js"></script><script>
  posthog.init(%(key)s, {
    api_host: %(host)s,
    debug: true,  // else its errors stay silent
    opt_out_useragent_filter: true,  // else a browser without a window is no person
    autocapture: false,
    request_queue_config: { flush_interval_ms: 250 },
    loaded: posthog => {
      window.ready = true
      posthog.onFeatureFlags(() => { window.flagged = true })
    },
  })
</script>"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The library as sites load it."""
    if HERE.exists():
        return (HERE / "dist" / "array.js").read_bytes()
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "pack", "--silent", "--cache", str(folder / "cache"), "--pack-destination", str(folder), PACKAGE]
    over = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    if over.returncode != 0:
        pytest.skip(f"npm gives no {PACKAGE}: {over.stderr[-300:]}")
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        file = archive.extractfile("package/dist/array.js")
        assert file is not None
        return file.read()


@dataclass
class Shop:
    """A site of an origin of its own, whose page loads the library."""

    api: Api
    url: str


@pytest_asyncio.fixture
async def shop(script: bytes, tmp_path: Path) -> AsyncIterator[Shop]:
    settings = settings_for(tmp_path, f"sqlite:///{tmp_path / 'loops.db'}")
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        given = {"key": json.dumps(KEY), "host": json.dumps(service.url)}

        async def page(_request: web.Request) -> web.Response:
            return web.Response(text=_PAGE % given, content_type="text/html")

        async def library(_request: web.Request) -> web.Response:
            return web.Response(body=script, content_type="application/javascript")

        async def nothing(_request: web.Request) -> web.Response:
            return web.Response(status=204)

        site = web.Application()
        site.add_routes([web.get("/", page), web.get("/array.js", library), web.get("/favicon.ico", nothing)])
        async with TestServer(site) as server:
            yield Shop(await fresh_project(service, session), str(server.make_url("/")))


def signing_up() -> dict[str, object]:
    """A workflow that notes who signed up, of what, for what."""
    document = workflow(
        "Note who signs up", {"type": "event", "filters": {"events": [{"id": "signed up", "type": "events"}]}}
    )
    text = "{person.properties.email} of {groups.company.properties.name} took {event.properties.plan}"
    document["actions"][1]["config"]["inputs"]["text"]["value"] = text
    return document


async def test_an_unmodified_posthog_js_starts_a_run_from_a_page_of_another_origin(shop: Shop, tmp_path: Path) -> None:
    assert PROGRAM is not None
    api = shop.api
    await api.post("integrations", {"kind": "posthog", "name": "shop", "settings": {"api_key": KEY}})
    await api.post("workflows", signing_up())
    async with chromium(PROGRAM, tmp_path / "profile") as browser:
        page = await browser.page()
        await page.goto(shop.url)
        await page.until("window.ready === true")
        await page.evaluate("posthog.identify('ada', { email: 'ada@example.com' })")
        await page.evaluate("posthog.group('company', 'acme', { name: 'Acme' })")
        await page.evaluate("void posthog.capture('signed up', { plan: 'pro' })")

        (run,) = (await api.until("runs", lambda found: [one["status"] for one in found["items"]] == ["completed"]))[
            "items"
        ]
        (note, _exit) = (await api.get(f"runs/{run['id']}"))["steps"]
        assert [line["text"] for line in note["log"]] == ["ada@example.com of Acme took pro"]

        await page.until("window.flagged === true")  # asked for, since another person may have other flags

        # What is left is sent by a beacon when the page goes.
        await page.goto(f"{shop.url}?left")
        sent = await api.until("deliveries", lambda found: "$pageleave" in str(found))
        assert {one["event"].split()[0] for one in sent["items"]} == {"capture"}

        await page.until("window.ready === true")
        paths = {urlsplit(url).path for url in page.requested if url.startswith(api.service.url)}
        assert paths == {f"/array/{KEY}/config.js", f"/array/{KEY}/config", "/flags/", "/e/"}
        assert page.errors == []
