"""A Slack Web API on loopback, as strict as Slack is about what our notifier sends, and as unkind as a test asks."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

TOKEN = "xoxb-1-2-abcdef"
_LONGEST_SECTION = 3000
_MOST_BLOCKS = 50
_LONGEST_TEXT = 40_000


class SlackDouble:
    """Channels with what was posted to them. `faults` are taken one a call of chat.postMessage, None for none;
    `sign_faults` of a channel one a call of reactions.add, chat.update and chat.delete. `reactions` are (channel, ts,
    name)."""

    def __init__(self) -> None:
        self.posted: dict[str, list[dict[str, Any]]] = {"C1": [], "C2": []}
        self.names = {"C1": "general", "C2": "alerts"}
        self.infos: dict[str, dict[str, Any]] = {"C1": {"is_member": True}, "C2": {"is_member": False}}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Callable[[web.Request], Any] | None] = []
        self.read_fault: dict[str, Any] | None = None
        self.list_faults: list[dict[str, Any] | None] = []
        self.reactions: list[tuple[str, str, str]] = []
        self.sign_faults: dict[str, list[Callable[[web.Request], Any]]] = {}
        self.edits: list[dict[str, Any]] = []
        self.removed: list[dict[str, Any]] = []
        self.scopes = "chat:write"
        self.page = 100
        self.root = ""
        self._ts = itertools.count(1)

    @property
    def url(self) -> str:
        """What a connection has as its `api_base_url`."""
        return f"{self.root}/api"

    def routes(self) -> list[web.RouteDef]:
        """What it answers."""
        return [
            web.post("/api/chat.postMessage", self.post_message),
            web.get("/api/conversations.history", self.history),
            web.get("/api/conversations.replies", self.replies),
            web.get("/api/conversations.info", self.info),
            web.get("/api/conversations.list", self.channels),
            web.post("/api/auth.test", self.auth_test),
            web.post("/api/reactions.add", self.react),
            web.post("/api/chat.update", self.update),
            web.post("/api/chat.delete", self.delete),
        ]

    def texts(self, channel: str = "C1") -> list[str]:
        """The text of each message, its sections joined."""
        return ["\n".join(_sections(one)) for one in self.posted[channel]]

    def post(self, channel: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Somebody posts a message."""
        message = {**asked, "ts": f"{time.time():.0f}.{next(self._ts):06d}"}
        self.posted[channel].append(message)
        return message

    async def post_message(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.calls.append(("chat.postMessage", asked))
        refusal = self._refusal(request, asked)
        if refusal is not None:
            return web.json_response({"ok": False, **refusal})
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            answer = await fault(request)
            if isinstance(answer, web.StreamResponse):
                return answer
        message = self.post(asked["channel"], asked)
        if fault is not None and answer == "lose the answer":
            _lose(request)
        return web.json_response({"ok": True, "channel": asked["channel"], "ts": message["ts"], "message": message})

    def _refusal(self, request: web.Request, asked: dict[str, Any]) -> dict[str, Any] | None:
        if token_of(request) != TOKEN:
            return {"error": "invalid_auth"}
        if asked.get("channel") not in self.posted:
            return {"error": "channel_not_found"}
        if len(asked["blocks"]) > _MOST_BLOCKS or any(len(text) > _LONGEST_SECTION for text in _sections(asked)):
            return {"error": "invalid_blocks"}
        if any(not text.strip() for text in _sections(asked)):
            return {"error": "invalid_blocks"}
        if len(asked["text"]) > _LONGEST_TEXT:
            return {"error": "msg_too_long"}
        metadata = asked["metadata"]
        if not metadata["event_type"].replace("_", "").isalnum() or not isinstance(metadata["event_payload"], dict):
            return {"error": "invalid_metadata_format"}
        return None

    async def react(self, request: web.Request) -> web.StreamResponse:
        asked = await self._sign("reactions.add", request)
        if isinstance(asked, web.StreamResponse):
            return asked
        one = (asked["channel"], asked["timestamp"], asked["name"])
        if one in self.reactions:
            return web.json_response({"ok": False, "error": "already_reacted"})
        self.reactions.append(one)
        return web.json_response({"ok": True})

    async def update(self, request: web.Request) -> web.StreamResponse:
        asked = await self._sign("chat.update", request)
        if isinstance(asked, web.StreamResponse):
            return asked
        for one in self.posted.get(asked["channel"], []):
            if one["ts"] == asked["ts"]:
                one.update(text=asked["text"], blocks=asked["blocks"])
                self.edits.append(asked)
                return web.json_response({"ok": True, "channel": asked["channel"], "ts": one["ts"]})
        return web.json_response({"ok": False, "error": "message_not_found"})

    async def delete(self, request: web.Request) -> web.StreamResponse:
        asked = await self._sign("chat.delete", request)
        if isinstance(asked, web.StreamResponse):
            return asked
        there = self.posted.get(asked["channel"], [])
        found = [one for one in there if one["ts"] == asked["ts"]]
        if not found:
            return web.json_response({"ok": False, "error": "message_not_found"})
        there.remove(found[0])
        self.removed += found
        return web.json_response({"ok": True, "channel": asked["channel"], "ts": asked["ts"]})

    async def _sign(self, method: str, request: web.Request) -> dict[str, Any] | web.StreamResponse:
        """What was asked, or the answer that refuses it."""
        asked: dict[str, Any] = await request.json()
        self.calls.append((method, asked))
        if token_of(request) != TOKEN:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        faults = self.sign_faults.get(asked["channel"])
        if faults:
            answer = await faults.pop(0)(request)
            if isinstance(answer, web.StreamResponse):
                return answer
        return asked

    async def history(self, request: web.Request) -> web.Response:
        return self._read("conversations.history", request, lambda one: "thread_ts" not in one)

    async def replies(self, request: web.Request) -> web.Response:
        thread = request.query["ts"]
        return self._read("conversations.replies", request, lambda one: thread in (one.get("thread_ts"), one["ts"]))

    def _read(self, method: str, request: web.Request, wanted: Callable[[dict[str, Any]], bool]) -> web.Response:
        self.calls.append((method, dict(request.query)))
        if self.read_fault is not None:
            return web.json_response({"ok": False, **self.read_fault})
        if request.query["channel"] not in self.posted:
            return web.json_response({"ok": False, "error": "channel_not_found"})
        found = [one for one in self.posted[request.query["channel"]] if wanted(one)][::-1]
        found = [one for one in found if float(one["ts"]) >= float(request.query.get("oldest", 0))]
        if request.query.get("include_all_metadata") != "1":
            found = [{name: value for name, value in one.items() if name != "metadata"} for one in found]
        start = int(request.query.get("cursor") or 0)
        rest = str(start + self.page) if len(found) > start + self.page else ""
        page = found[start : start + self.page]
        return web.json_response({"ok": True, "messages": page, "response_metadata": {"next_cursor": rest}})

    async def info(self, request: web.Request) -> web.Response:
        channel = request.query["channel"]
        self.calls.append(("conversations.info", dict(request.query)))
        if channel not in self.infos and channel not in self.posted:
            return web.json_response({"ok": False, "error": "channel_not_found"})
        told = {"id": channel, "name": self.names.get(channel, ""), **self.infos.get(channel, {})}
        return web.json_response({"ok": True, "channel": told}, headers={"X-OAuth-Scopes": self.scopes})

    async def channels(self, request: web.Request) -> web.Response:
        """In pages of `page`; `list_faults` are taken one a call, None for none."""
        self.calls.append(("conversations.list", dict(request.query)))
        fault = self.list_faults.pop(0) if self.list_faults else None
        if fault is not None:
            status, headers = (429, {"Retry-After": str(fault["after"])}) if "after" in fault else (200, {})
            return web.json_response({"ok": False, **fault}, status=status, headers=headers)
        listed = [
            {"id": key, "name": name, **self.infos.get(key, {})}
            for key, name in self.names.items()
            if "private" in request.query["types"] or not self.infos.get(key, {}).get("is_private")
        ]
        start = int(request.query.get("cursor") or 0)
        rest = str(start + self.page) if len(listed) > start + self.page else ""
        page = listed[start : start + self.page]
        return web.json_response({"ok": True, "channels": page, "response_metadata": {"next_cursor": rest}})

    async def auth_test(self, _request: web.Request) -> web.Response:
        self.calls.append(("auth.test", {}))
        return web.json_response({"ok": True, "user": "loops"}, headers={"X-OAuth-Scopes": self.scopes})


def token_of(request: web.Request) -> str:
    """The token that a call is made with."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _sections(asked: dict[str, Any]) -> list[str]:
    return [block["text"]["text"] for block in asked["blocks"] if block["type"] == "section"]


def _lose(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


def says(**body: Any) -> Callable[[web.Request], Any]:
    """Refuses with `ok: false`."""

    async def fault(_request: web.Request) -> web.Response:
        return web.json_response({"ok": False, **body})

    return fault


def answers(status: int, text: str = "", **headers: str) -> Callable[[web.Request], Any]:
    """Answers as no API does: what a gateway before it says."""

    async def fault(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=headers)

    return fault


def limited(seconds: int) -> Callable[[web.Request], Any]:
    """Asks for patience."""

    async def fault(_request: web.Request) -> web.Response:
        answer = {"ok": False, "error": "ratelimited"}
        return web.json_response(answer, status=429, headers={"Retry-After": str(seconds)})

    return fault


async def loses_the_answer(_request: web.Request) -> str:
    """Posts, then drops the connection."""
    return "lose the answer"


async def loses_the_request(request: web.Request) -> web.Response:
    """Drops the connection and posts nothing."""
    _lose(request)
    return web.Response()


def sleeps(seconds: float) -> Callable[[web.Request], Any]:
    """Posts nothing for a while, and the answer comes when nobody waits for it any more."""

    async def fault(_request: web.Request) -> None:
        await asyncio.sleep(seconds)

    return fault


@asynccontextmanager
async def serving(double: SlackDouble) -> AsyncIterator[None]:
    """On loopback, for as long as it is used."""
    application = web.Application()
    application.add_routes(double.routes())
    async with TestServer(application) as server:
        double.root = str(server.make_url("/")).rstrip("/")
        yield


@asynccontextmanager
async def slack() -> AsyncIterator[SlackDouble]:
    """A Slack with the channels C1 (general) and C2 (alerts)."""
    double = SlackDouble()
    async with serving(double):
        yield double
