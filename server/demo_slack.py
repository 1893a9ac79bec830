"""A stand-in for Slack's Web API on loopback: what the demonstration posts to, since it has no workspace.

It answers what Loops asks of Slack when it sends a message, keeps what is posted in memory, and calls itself what it is
wherever it shows. What arrives here was sent by the product as it is sent to Slack.
"""

import itertools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

TOKEN = "xoxb-of-the-stand-in"  # noqa: S105 - opens nothing but what this process holds
CHANNEL = "C0123456789"
"""The channel that the examples name; the stand-in has no other one."""
TEAM, APP, BOT, USER = "T0STANDIN", "A0LOOPS", "B0LOOPS", "U0LOOPS"
ADA, BEN = "U0ADA", "U0BEN"
NAME = "stand-in for Slack"
_PEOPLE = {USER: "Loops", ADA: "Ada", BEN: "Ben"}
_OF_ONE = frozenset({"reactions.add", "chat.update", "chat.delete"})
_METHODS = frozenset(
    {"chat.postMessage", "conversations.history", "conversations.replies", "conversations.info", *_OF_ONE}
)
_Answer = dict[str, Any]


class SlackStandIn:
    """One workspace with one channel and one app. `messages` are what stands in the channel, the oldest first."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.root = ""
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """What a connection has as its `api_base_url`."""
        return f"{self.root}/api/"

    def put(self, user: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message of somebody, which gets Slack's name for it: its `ts`."""
        ts = f"{time.time():.0f}.{next(self._numbers):06d}"
        made = {"type": "message", "user": user, **message, "ts": ts}
        self.messages.append(made)
        return made

    def thread(self, ts: str) -> list[dict[str, Any]]:
        """The message and what was answered to it."""
        return [one for one in self.messages if ts in (one["ts"], one.get("thread_ts"))]

    def conversation(self, ts: str) -> list[str]:
        """Who said what where a message stands, as lines."""
        first = next((one.get("thread_ts", ts) for one in self.messages if one["ts"] == ts), ts)
        return [f"{_PEOPLE[one['user']]}: {one['text']}{_eyes(one)}" for one in self.thread(first)]

    async def call(self, request: web.Request) -> web.Response:
        """One call of the Web API."""
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response(_refused("invalid_auth"))
        asked: dict[str, Any] = dict(request.query)
        if request.method == "POST":
            asked |= await request.json() if request.content_type == "application/json" else await request.post()
        return web.json_response(self._answer(request.match_info["method"], asked))

    def _answer(self, method: str, asked: Mapping[str, Any]) -> _Answer:
        if method == "auth.test":
            return {"ok": True, "url": f"{self.root}/", "team": NAME, "team_id": TEAM, "user_id": USER, "bot_id": BOT}
        if method == "bots.info":
            return {"ok": True, "bot": {"id": BOT, "app_id": APP, "name": "Loops"}}
        if method not in _METHODS:
            return _refused("unknown_method")
        if asked.get("channel") != CHANNEL:
            return _refused("channel_not_found")
        if method in _OF_ONE:
            return self._change(method, asked)
        if method == "chat.postMessage":
            made = self.put(USER, {"bot_id": BOT, "app_id": APP, **_posted(asked)})
            return {"ok": True, "channel": CHANNEL, "ts": made["ts"], "message": made}
        if method == "conversations.info":
            return {"ok": True, "channel": {"id": CHANNEL, "name": NAME, "is_member": True}}
        found = self.thread(asked["ts"]) if method == "conversations.replies" else self.messages[::-1]
        return {"ok": True, "messages": found, "response_metadata": {"next_cursor": ""}}

    def _change(self, method: str, asked: Mapping[str, Any]) -> _Answer:
        """What is done to one message."""
        ts = asked.get("timestamp") or asked.get("ts")
        one = next((one for one in self.messages if one["ts"] == ts), None)
        if one is None:
            return _refused("message_not_found")
        if method == "reactions.add":
            one.setdefault("reactions", []).append(asked["name"])
        elif method == "chat.update":
            one.update(_posted(asked))
        else:
            self.messages.remove(one)
        return {"ok": True, "channel": CHANNEL, "ts": ts}

    async def page(self, _request: web.Request) -> web.Response:
        """What stands in the channel, where the addresses of messages lead."""
        said = [line for one in self.messages if "thread_ts" not in one for line in self.conversation(one["ts"])]
        return web.Response(text="\n\n".join([f"This is a {NAME}, made by `loops demo`.", *said, ""]))


def _eyes(message: Mapping[str, Any]) -> str:
    return "".join(f"  :{name}:" for name in message.get("reactions", ()))


def _posted(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {key: asked[key] for key in ("text", "blocks", "metadata", "thread_ts") if asked.get(key)}


def _refused(code: str) -> _Answer:
    return {"ok": False, "error": code}


@asynccontextmanager
async def standing_in() -> AsyncIterator[SlackStandIn]:
    """On any free port of this machine, for as long as it is used."""
    stand_in, app = SlackStandIn(), web.Application()
    app.router.add_route("*", "/api/{method}", stand_in.call)
    app.router.add_get("/archives/{channel}/{message}", stand_in.page)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stand_in.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield stand_in
    finally:
        await runner.cleanup()
