"""Chromium without a window, driven over its DevTools protocol: what a page really does in front of a person."""

import asyncio
import base64
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Asking the desktop for a key ring can hold up everything for half a minute where no desktop answers.
    "--password-store=basic",
    "--disable-extensions",
    # A page that is not in front is still looked at here: its timers and its process must not be slowed down.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--remote-debugging-port=0",
    "--window-size=1280,900",
)
_PATIENCE = 40.0
CONTRAST = """(() => {
  const channel = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const colour = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const found = colour(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const pair = [light(colour(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) poor.push(`${texts.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
  }
  return poor;
})()"""
"""The words of a page that do not stand out enough from their ground, each with its contrast."""


def find_chromium() -> str | None:
    """The program, None where this machine has none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. `requested` is every address that it asked for, `dialogs` every dialog that it opened, `errors` what it
    said of what went wrong, `refused` that of it which its policy stopped."""

    def __init__(self, wire: "_Wire", session: str, context: str) -> None:
        self._wire = wire
        self._session = session
        self._context = context
        self.requested: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.refused: list[str] = []
        wire.listeners[session] = self._heard

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        return await self._wire.send(method, params, self._session)

    async def close(self) -> None:
        """Close the tab and forget what it left behind."""
        await self._wire.send("Target.disposeBrowserContext", {"browserContextId": self._context})

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
        elif method == "Log.entryAdded":
            self._logged(params["entry"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "assert"}:
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))

    def _logged(self, entry: dict[str, Any]) -> None:
        if "Content Security Policy" in entry["text"]:
            self.refused.append(entry["text"])
        if entry["level"] == "error":
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    async def goto(self, url: str) -> None:
        """Open an address and wait until it has loaded."""
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression holds; while the page is being changed for another it does not."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            with suppress(AssertionError, ProtocolError):
                if await self.evaluate(expression):
                    return
            await asyncio.sleep(0.05)
        where = await self.evaluate("`${location.href} [${document.activeElement?.outerHTML}]`")
        raise AssertionError(f"never became true: {expression}\nat {where}\n{await self.text()}")

    async def text(self) -> str:
        """What a person reads."""
        return str(await self.evaluate("document.body.innerText"))

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press and let go of a key."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    async def click(self, selector: str) -> None:
        """Press the middle of an element with the mouse."""
        await self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        box = await self.evaluate(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        await self.send("Input.dispatchMouseEvent", type="mousePressed", **place)
        await self.send("Input.dispatchMouseEvent", type="mouseReleased", **place)

    async def prefer(self, scheme: str) -> None:
        """Ask for light or dark."""
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, *, clip: dict[str, float] | None = None) -> bytes:
        """A PNG of what is to be seen."""
        asked: dict[str, Any] = {"format": "png"} if clip is None else {"format": "png", "clip": {**clip, "scale": 1}}
        return base64.b64decode((await self.send("Page.captureScreenshot", **asked))["data"])


class ProtocolError(Exception):
    """The browser refused a command."""


class _Wire:
    """Commands and their answers over one socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.listeners: dict[str, Any] = {}
        self._reading = asyncio.create_task(self._read())

    async def send(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        command: dict[str, Any] = {"id": number, "method": method, "params": params}
        await self._socket.send_json(command if session is None else {**command, "sessionId": session})
        async with asyncio.timeout(_PATIENCE):
            result: dict[str, Any] = await answer
            return result

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            answer = self._waiting.pop(told.get("id"), None)
            if answer is not None:
                if "error" in told:
                    answer.set_exception(ProtocolError(told["error"]["message"]))
                else:
                    answer.set_result(told["result"])
            elif told.get("sessionId") in self.listeners:
                self.listeners[told["sessionId"]](told["method"], told["params"])

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Browser:
    """A running Chromium with a profile of its own."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def page(self) -> Page:
        """A new tab, with nothing that another one left behind."""
        context = (await self._wire.send("Target.createBrowserContext", {}))["browserContextId"]
        asked = {"url": "about:blank", "browserContextId": context, "width": 1280, "height": 900}
        target = (await self._wire.send("Target.createTarget", asked))["targetId"]
        attached = await self._wire.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self._wire, attached["sessionId"], context)
        for domain in ("Page", "Network", "Log", "Runtime"):
            await page.send(f"{domain}.enable")
        return page


@asynccontextmanager
async def chromium(program: str, profile: Path, *flags: str) -> AsyncIterator[Browser]:
    """Start a browser, and stop it at the end."""
    running = await asyncio.create_subprocess_exec(
        program,
        *_FLAGS,
        *flags,
        f"--user-data-dir={profile}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        address = await _address(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            wire = _Wire(socket)
            try:
                yield Browser(wire)
                with suppress(ProtocolError, TimeoutError, ConnectionError):
                    await wire.send("Browser.close", {})
            finally:
                await wire.close()
    finally:
        try:
            await asyncio.wait_for(running.wait(), 5)
        except TimeoutError:
            running.kill()
            await running.wait()


async def _address(file: Path) -> str:
    async with asyncio.timeout(_PATIENCE):
        while len(lines := await asyncio.to_thread(_lines, file)) < 2:  # noqa: ASYNC110 - another program writes it
            await asyncio.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []
