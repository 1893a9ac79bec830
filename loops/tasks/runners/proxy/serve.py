"""The proxy itself: a unix socket for one task, that leads to one provider."""

import asyncio
import hmac
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

LARGEST = 16 << 20
AT_ONCE = 4
_THERE = frozenset({"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"})
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
        self._barred = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not self._shows_token(request):
            return self._refusal(401, f"this is not the token {_OURS}")
        path = PATHS[self._upstream.api].get(request.path)
        if path is None or request.method != "POST":
            return self._refusal(404, f"{request.method} {request.path[:200]} is none {_OURS}")
        async with self._at_once:
            body = await request.read()
            # Beside the event loop: the body may be large, and made to take long.
            one = await off_loop(lambda: asked(request.path, body, self._upstream.model))
            if isinstance(one, Barred):
                self._note(one)
                return self._refusal(one.status, one.reason)
            return await self._pass(request, path, body, one)

    def _note(self, barred: Barred) -> None:
        self._barred += 1
        if self._barred <= _MOST_NOTED:
            log.warning("a request of runner %s was not let through: %s", self._upstream.runner, barred.reason)

    def _shows_token(self, request: web.Request) -> bool:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        shown = request.headers.get("x-api-key") or bearer
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token.encode())

    async def _pass(self, request: web.Request, path: str, body: bytes, one: Asked) -> web.StreamResponse:
        if not one.most.total:
            return await self._forward(request, path, body, _Uncounted())
        key = await self._meter.reserve(one)
        if not key:
            if not self._meter.is_budget:
                return self._refusal(403, f"this task began with another model than {one.model[:80]}")
            return self._refusal(402, "the budget of this task is used up")
        count = _Counted()
        try:
            return await self._forward(request, path, body, count)
        finally:
            # Shielded: what was used counts, also of an answer that nobody waits for any more.
            await asyncio.shield(self._meter.settle(key, count.usage(one)))

    async def _forward(self, request: web.Request, path: str, body: bytes, count: "_Uncounted") -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _THERE}
        headers |= {"Accept-Encoding": "identity", **self._upstream.headers}
        query = {"beta": "true"} if request.query.get("beta") == "true" else None
        address = f"{self._upstream.base_url}{path}"
        try:
            async with self._session.post(
                address, data=body, headers=headers, params=query, allow_redirects=False
            ) as answer:
                self._judge(answer.status)
                return await self._stream(request, answer, count)
        except (aiohttp.ClientError, TimeoutError) as error:
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


class _Counted(_Uncounted):
    """Counts the answer of one request."""

    def __init__(self) -> None:
        self._counter: AnswerCounter | None = None
        self._status = 0

    def begin(self, answer: aiohttp.ClientResponse) -> None:
        self._status = answer.status
        self._counter = AnswerCounter(is_stream=answer.content_type == "text/event-stream")

    def add(self, piece: bytes) -> None:
        if self._counter is not None:
            self._counter.add(piece)

    def usage(self, one: Asked) -> Usage:
        """What is charged: nothing for an answer that never began, or that says no."""
        if self._counter is None or self._status >= 400:
            return Usage()
        return self._counter.usage(one.most)
