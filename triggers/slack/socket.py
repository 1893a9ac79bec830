"""One socket of Slack's Socket Mode, from its opening until it is lost or has to be replaced.

Slack's own client reads, pings and watches the socket. It would also reconnect by itself, for ever and with a
traceback every few seconds; here the end of a socket is only noted, and who opened it opens the next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from loops.errors import ExternalError

log = logging.getLogger("loops.slack")

CONNECT_SECONDS = 10.0
DRAIN_SECONDS = 3.0
_CLOSE_SECONDS = 1.0
_EVENTS = "events_api"

Accept = Callable[[SocketModeRequest], Awaitable[bool]]
"""Stores an envelope; whether it may be acknowledged. Never raises what the sender can cause."""


class Socket:
    """An open socket. `over` is set when it ended; `reason` is Slack's word for it, empty when it was merely lost."""

    def __init__(self, app: AsyncApp, accept: Accept, *, ping_seconds: float) -> None:
        """Use `open`."""
        self.over = asyncio.Event()
        self.reason = ""
        self._app = app
        self._accept = accept
        self._pending: set[asyncio.Task[Any]] = set()
        self._client = _Client(self._ended, ping_interval=ping_seconds)
        self._client.socket_mode_request_listeners.append(self._take)

    async def open(self, url: str) -> None:
        """Connect. Raises ExternalError, and is closed then."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._client.open(url)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self.close()
            told = type(error).__name__  # its text may hold the address, which lets whoever reads it connect
            raise ExternalError("Slack", f"its socket cannot be opened: {told}", hint="check the network") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let what was read be stored and acknowledged, then close."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=DRAIN_SECONDS)
        await self._client.close()

    def _ended(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.over.set()

    async def _take(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        """Stored first, and only then acknowledged: what is not, Slack sends again."""
        task = asyncio.current_task()
        if task is not None:
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
        if not await self._accept(request):
            return
        try:
            if request.type == _EVENTS:
                await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
            else:
                answer = await run_async_bolt_app(self._app, request)
                await send_async_response(client, request, answer, 0.0)
        except (ConnectionError, aiohttp.ClientError):
            log.info("a socket was lost before an envelope was acknowledged: Slack sends it again")


class _Client(SocketModeClient):
    """Slack's client without its reconnecting."""

    def __init__(self, ended: Callable[[str], None], *, ping_interval: float) -> None:
        super().__init__("", web_client=AsyncWebClient(), ping_interval=ping_interval)
        self._ended = ended

    async def open(self, url: str) -> None:
        self.current_session = await self.aiohttp_client_session.ws_connect(
            url,
            autoping=False,  # the reading below answers pings itself
            heartbeat=self.ping_interval,
            proxy=self.proxy,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
        )
        self.current_session_monitor = asyncio.ensure_future(self.monitor_current_session())
        self.message_receiver = asyncio.ensure_future(self.receive_messages())

    async def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002, RUF100
        self._ended("")

    async def run_message_listeners(self, message: dict[str, Any], raw_message: str) -> None:
        if message.get("type") == "disconnect":
            self._ended(str(message.get("reason") or ""))
            return
        await super().run_message_listeners(message, raw_message)

    async def close(self) -> None:
        await super().close()  # type: ignore[no-untyped-call]
        tasks = (self.message_processor, self.current_session_monitor, self.message_receiver)
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
