"""An ASGI application behind a handler of aiohttp, which the protocol's library needs and aiohttp does not speak."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from aiohttp import ClientPayloadError, web

from loops.errors import RequestError

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_LOOK_SECONDS = 0.25
_KEPT_BACK = frozenset({b"authorization", b"cookie"})
_OURS = frozenset({"connection", "content-length", "transfer-encoding"})


async def bridged(application: Application, request: web.Request, more: Mapping[str, Any]) -> web.StreamResponse:
    """What the application answers. Its scope holds `more`, and neither token nor cookie. Raises RequestError where the
    body breaks off."""
    exchange = _Exchange(request, await whole(request))
    await application({**_scope(request), **more}, exchange.receive, exchange.send)
    return exchange.answered()


async def whole(request: web.Request) -> bytes:
    """The body, which may be asked for again. Raises RequestError where it breaks off."""
    try:
        return await request.read()
    except (ClientPayloadError, web.RequestPayloadError, ConnectionError) as error:
        raise RequestError("the body could not be read to its end", hint="send it again, whole") from error


class _Exchange:
    """One request and its answer. What comes whole is sent whole; only what comes in parts is streamed."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._start: Message = {"status": 500, "headers": []}
        self._response: web.StreamResponse | None = None

    async def receive(self) -> Message:
        """The body, and then the end of the connection, whenever that comes."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        while not self._gone():  # noqa: ASYNC110 - a handler is told by nobody that its connection has ended
            await asyncio.sleep(_LOOK_SECONDS)
        return {"type": "http.disconnect"}

    def _gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._response is None and not more:
            self._response = web.Response(status=self._status(), headers=self._headers(), body=body)
            return
        try:
            await self._stream(body, more=more)
        except ConnectionError:
            return  # whoever asked has gone: `receive` says so

    async def _stream(self, body: bytes, *, more: bool) -> None:
        if self._response is None:
            self._response = web.StreamResponse(status=self._status(), headers=self._headers())
            await self._response.prepare(self._request)
        if body:
            await self._response.write(body)
        if not more:
            await self._response.write_eof()

    def answered(self) -> web.StreamResponse:
        """What there is to answer; nothing where whoever asked went before there was."""
        return self._response or web.Response(status=499 if self._gone() else 500)

    def _status(self) -> int:
        return int(self._start["status"])

    def _headers(self) -> list[tuple[str, str]]:
        pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._start["headers"])
        return [(name, value) for name, value in pairs if name.lower() not in _OURS]


def _scope(request: web.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.raw_path.encode(),
        "query_string": request.query_string.encode(),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers if name.lower() not in _KEPT_BACK],
        "client": None,
        "server": None,
    }
