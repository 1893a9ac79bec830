"""A Slack on loopback with the methods that tokens are checked by, and Socket Mode besides: it sends envelopes, notes
what is acknowledged, and ends sockets as a test asks. What is posted to it can come back as events, as in Slack."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

from tests.doubles.slack import TOKEN, SlackDouble, serving, token_of

APP_TOKEN = "xapp-1-A0LOOPS-3-ghijkl"
IDENTITY = {
    "ok": True,
    "url": "https://acme.slack.com/",
    "team": "Acme",
    "team_id": "T0ACME",
    "user": "loops",
    "user_id": "U0LOOPS",
    "bot_id": "B0LOOPS",
    "is_enterprise_install": False,
}
ALL_SCOPES = (
    "app_mentions:read,channels:history,groups:history,im:history,mpim:history,channels:read,groups:read,"
    "chat:write,chat:write.customize,im:write,reactions:write,users:read,users:read.email"
)


class SlackSocketDouble(SlackDouble):
    """One workspace with one app. `sockets` are those that are open, the oldest first.

    `echo` makes an event of a channel and what the app posts to it, which is sent at once; `echoes` are what those are
    acknowledged with.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bot_tokens = {TOKEN: IDENTITY}
        self.app_tokens = {APP_TOKEN}
        self.scopes = ALL_SCOPES
        self.app_id: str | None = "A0LOOPS"
        self.echo: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None
        self.echoes: list[asyncio.Future[dict[str, Any]]] = []
        self.limited = 0
        self.sockets: list[web.WebSocketResponse] = []
        self.opened = 0
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self._tickets: set[str] = set()
        self._numbers = itertools.count(1)

    def routes(self) -> list[web.RouteDef]:
        return [
            *super().routes(),
            web.post("/api/bots.info", self.bots_info),
            web.post("/api/apps.connections.open", self.open),
            web.get("/link", self.link),
        ]

    def called(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for name, _asked in self.calls)

    def post(self, channel: str, asked: dict[str, Any]) -> dict[str, Any]:
        message = super().post(channel, asked)
        if self.echo is not None:
            self.echoes.append(asyncio.ensure_future(self.deliver(self.echo(channel, message))))
        return message

    async def auth_test(self, request: web.Request) -> web.Response:
        self.calls.append(("auth.test", {}))
        told = self.bot_tokens.get(token_of(request))
        if told is None:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        return web.json_response(told, headers={"X-OAuth-Scopes": self.scopes})

    async def bots_info(self, request: web.Request) -> web.Response:
        self.calls.append(("bots.info", {}))
        if token_of(request) not in self.bot_tokens:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if self.app_id is None:
            told = {"ok": False, "error": "missing_scope", "needed": "users:read", "provided": self.scopes}
            return web.json_response(told)
        bot = (await request.post()).get("bot")
        return web.json_response({"ok": True, "bot": {"id": bot, "app_id": self.app_id}})

    async def open(self, request: web.Request) -> web.Response:
        self.calls.append(("apps.connections.open", {}))
        if self.limited:
            self.limited -= 1
            limited = {"ok": False, "error": "ratelimited"}
            return web.json_response(limited, status=429, headers={"Retry-After": "1"})
        if token_of(request) not in self.app_tokens:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        ticket = f"t{next(self._numbers)}"
        self._tickets.add(ticket)
        return web.json_response({"ok": True, "url": f"{self.root.replace('http', 'ws', 1)}/link?ticket={ticket}"})

    async def link(self, request: web.Request) -> web.StreamResponse:
        """A socket; a ticket is good for one."""
        ticket = request.query["ticket"]
        if ticket not in self._tickets:
            return web.Response(status=403)
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(heartbeat=None)
        await socket.prepare(request)
        self.sockets.append(socket)
        self.opened += 1
        try:
            await socket.send_json({"type": "hello", "num_connections": len(self.sockets), "connection_info": {}})
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    answer = json.loads(message.data)
                    self.acknowledged[answer["envelope_id"]] = answer
        finally:
            self.sockets.remove(socket)
        return socket

    async def send(self, payload: Mapping[str, Any], kind: str = "events_api", *, envelope: str | None = None) -> str:
        """Send an envelope over the newest socket; its id."""
        key = envelope or f"envelope-{next(self._numbers)}"
        told = {"envelope_id": key, "type": kind, "payload": payload, "accepts_response_payload": kind != "events_api"}
        await self.sockets[-1].send_json(told)
        return key

    async def acknowledgement(self, envelope: str) -> dict[str, Any]:
        """What an envelope is acknowledged with, once it is."""
        await until(lambda: envelope in self.acknowledged)
        return self.acknowledged[envelope]

    async def deliver(self, payload: Mapping[str, Any], kind: str = "events_api") -> dict[str, Any]:
        """Send an envelope, and what it is acknowledged with."""
        await until(lambda: bool(self.sockets))
        return await self.acknowledgement(await self.send(payload, kind))

    async def ends(self, reason: str) -> None:
        """Say that the newest socket will end."""
        await self.sockets[-1].send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}})

    def lose(self) -> None:
        """Drop every socket without a word."""
        for socket in self.sockets:
            transport = socket._req.transport if socket._req else None
            assert transport is not None
            transport.abort()


async def until(holds: Any, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in several places
            await asyncio.sleep(0.02)


@asynccontextmanager
async def slack_sockets() -> AsyncIterator[SlackSocketDouble]:
    """A running double."""
    double = SlackSocketDouble()
    async with serving(double):
        try:
            yield double
        finally:
            for socket in [*double.sockets]:
                await socket.close()
