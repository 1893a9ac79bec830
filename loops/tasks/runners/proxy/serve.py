"""The proxy itself: a unix socket for one task, that leads to one provider."""

import asyncio
import hmac
import io
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from config.runner_settings import Api
from config.secret_text import SecretText
from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.asked import PATHS, Asked, Barred, asked
from loops.tasks.runners.proxy.counting import AnswerCounter
from loops.tasks.runners.proxy.meter import Meter
from loops.threads import off_loop

log = logging.getLogger("loops.tasks")

LARGEST = 8 << 20
AT_ONCE = 4
MOST_BARRED = 16
"""Requests that a task may make in vain: to look into each takes the time of others."""
_THERE = frozenset({"accept", "anthropic-beta", "anthropic-version", "openai-beta", "user-agent"})
_BACK = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id", "x-should-retry"})
_MOST_NOTED = 5
_OURS = "of this task's proxy"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A provider as it is reached. `base_url` is without a closing slash, that of OpenAI's API with its `/v1`."""

    runner: str
    api: Api
    model: str
    base_url: str
    api_key: SecretText = field(repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """What shows the key."""
        key = self.api_key.reveal()
        if not key:
            return {}
        return {"x-api-key": key} if self.api == "anthropic" else {"Authorization": f"Bearer {key}"}


@asynccontextmanager
async def model_proxy(socket: Path, upstream: Upstream, token: str, meter: Meter) -> AsyncIterator[None]:
    """Answers at `socket` what shows `token`, until it is left; what is under way then is broken off."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=20.0, sock_read=600.0)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{path:.*}", _Proxy(session, upstream, token, meter).answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.UnixSite(runner, str(socket)).start()
            yield
        finally:
            await runner.cleanup()


class _Proxy:
    def __init__(self, session: aiohttp.ClientSession, upstream: Upstream, token: str, meter: Meter) -> None:
        self._session = session
        self._upstream = upstream
        self._token = token
        self._meter = meter
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._looking = asyncio.Lock()
        self._barred = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not self._shows_token(request):
            return self._refusal(401, f"this is not the token {_OURS}")
        path = PATHS[self._upstream.api].get(request.path)
        if path is None or request.method != "POST":
            return self._refusal(404, f"{request.method} {request.path[:200]} is none {_OURS}")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return self._refusal(415, f"a packed body is none {_OURS}")
        async with self._at_once:
            one = await self._asked(request)
            if isinstance(one, Barred):
                self._note(one)
                return self._refusal(one.status, one.reason)
            return await self._pass(request, path, one)

    async def _asked(self, request: web.Request) -> Asked | Barred:
        if self._meter.verdict.done():
            return Barred("this task is over", 402 if self._meter.is_budget else 403)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return Barred(f"the body has more than {LARGEST >> 20} MB", 413)
        # Beside the event loop and one after the other: a body may be made to take long.
        async with self._looking:
            if self._meter.verdict.done():
                return Barred("this task is over", 402 if self._meter.is_budget else 403)
            return await off_loop(lambda: asked(request.path, body, self._upstream.model))

    def _note(self, barred: Barred) -> None:
        if self._meter.verdict.done():
            return
        self._barred += 1
        if self._barred <= _MOST_NOTED:
            log.warning("a request of runner %s was not let through: %s", self._upstream.runner, barred.reason)
        if self._barred == MOST_BARRED:
            self._meter.give_up(
                f"{MOST_BARRED} requests of runner {self._upstream.runner} could not be let through, "
                f"the last one as {barred.reason}"
            )

    def _shows_token(self, request: web.Request) -> bool:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        shown = request.headers.get("x-api-key") or bearer
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token.encode())

    async def _pass(self, request: web.Request, path: str, one: Asked) -> web.StreamResponse:
        if not one.most.total:
            return await self._forward(request, path, one.body, _Uncounted())
        key = await self._meter.reserve(one)
        if not key:
            if not self._meter.is_budget:
                return self._refusal(403, f"this task began with another model than {one.model[:80]}")
            return self._refusal(402, "the budget of this task is used up")
        count = _Counted(one)
        try:
            return await self._forward(request, path, one.body, count)
        finally:
            # Shielded: what was used counts, also of an answer that nobody waits for any more.
            await asyncio.shield(self._meter.settle(key, count.usage()))

    async def _forward(self, request: web.Request, path: str, body: bytes, count: "_Uncounted") -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _THERE}
        headers |= {"Accept-Encoding": "identity", "Content-Type": "application/json", **self._upstream.headers}
        query = {"beta": "true"} if request.query.get("beta") == "true" else None
        address = f"{self._upstream.base_url}{path}"
        try:
            async with self._session.post(
                address, data=io.BytesIO(body), headers=headers, params=query, allow_redirects=False
            ) as answer:
                self._judge(answer.status)
                return await self._stream(request, answer, count)
        except (aiohttp.ClientError, TimeoutError) as error:
            count.fail(error)
            reason = f"the model of runner {self._upstream.runner} is not reached: {type(error).__name__}"
            log.warning(reason)
            return self._refusal(502, reason)

    def _judge(self, status: int) -> None:
        """A key that is refused is refused for good; agents would try it ten times."""
        if status in (401, 403):
            self._meter.give_up(
                f"the provider does not take the key of runner {self._upstream.runner} ({status}): look at its api_key"
            )

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, count: "_Uncounted"
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() in _BACK}
        response = web.StreamResponse(status=answer.status, headers=headers)
        count.begin(answer)
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            count.add(piece)
            await response.write(piece)
        await response.write_eof()
        return response

    def _refusal(self, status: int, message: str) -> web.Response:
        kind = {401: "authentication_error", 402: "billing_error", 404: "not_found_error", 502: "api_error"}.get(
            status, "invalid_request_error"
        )
        body: dict[str, Any] = {"type": "error", "error": {"type": kind, "code": kind, "message": message}}
        return web.json_response(body, status=status)


class _Uncounted:
    """Of a request that costs nothing."""

    def begin(self, answer: aiohttp.ClientResponse) -> None:
        """The answer begins."""

    def add(self, piece: bytes) -> None:
        """A piece of it came."""

    def fail(self, error: Exception) -> None:
        """The provider broke off."""


class _Counted(_Uncounted):
    """Counts the answer of one request. Of one that never began nobody knows what the provider wrote: where its agent
    went away, which it could do on purpose, it costs all that it may."""

    def __init__(self, one: Asked) -> None:
        self._one = one
        self._counter: AnswerCounter | None = None
        self._status = 0
        self._unbegun = one.whole

    def begin(self, answer: aiohttp.ClientResponse) -> None:
        self._status = answer.status
        self._counter = AnswerCounter(is_stream=answer.content_type == "text/event-stream")

    def add(self, piece: bytes) -> None:
        if self._counter is not None:
            self._counter.add(piece)

    def fail(self, error: Exception) -> None:
        is_unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        self._unbegun = Usage() if is_unsent else self._one.most

    def usage(self) -> Usage:
        """What is charged: nothing for an answer that says no."""
        if self._counter is None:
            return self._unbegun
        return Usage() if self._status >= 400 else self._counter.usage(self._one.most, self._one.whole)
