"""Where PostHog's SDKs send: captures by project API key, and an empty answer to what they ask for besides.

Browsers of any origin may send here, and here alone: nothing on these paths reads a cookie or tells anything.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import NamedTuple

import msgspec
from aiohttp import web

from loops.errors import LoopsError, PayloadMalformed, PayloadTooLarge, SignatureInvalid
from loops.event import JsonValue
from server.api.hooks import Beside, BodyBudget, Counted, Refused, read_body, refusal
from server.services import Services
from triggers.costly import LARGE
from triggers.posthog import PostHogSource
from triggers.posthog.body import LIMIT, decode, unpack
from triggers.posthog.event import api_key
from triggers.source import Incoming

log = logging.getLogger("loops.capture")

CAPTURE_PATHS = ("/batch/", "/i/v0/e/", "/capture/", "/e/")
FLAG_PATHS = ("/flags/", "/decide/")
RECORDING_PATH = "/s/"
CONFIG_PATHS = ("/array/{key}/config", "/array/{key}/config.js")
PROXY_PREFIX = "/ingest"
"""Where many sites have their own server pass on what posthog-js sends: they need not change it."""
FIRST_PIECES = frozenset(
    path.split("/")[1] for path in (*CAPTURE_PATHS, *FLAG_PATHS, *CONFIG_PATHS, RECORDING_PATH, PROXY_PREFIX)
)
"""What an address that an SDK asks for begins with."""

_STATUS = {"status": 1}
_JSON = {"Content-Type": "application/json"}
# No flag, no recording, and how captures may be packed. Of surveys nothing: told that there are none, posthog-js loads
# its script for them from here all the same.
_CONFIGURATION: dict[str, JsonValue] = {
    "config": {},
    "featureFlags": {},
    "featureFlagPayloads": {},
    "flags": {},
    "errorsWhileComputingFlags": False,
    "hasFeatureFlags": False,
    "sessionRecording": False,
    "siteApps": [],
    "toolbarParams": {},
    "isAuthenticated": False,
    "supportedCompression": ["gzip", "gzip-js", "base64"],
}
_LONGEST_HEADER = 1000
_DAY = "86400"

_Handler = Callable[[web.Request], Awaitable[web.Response]]


class _Decoded(NamedTuple):
    """A body as a value, and its size in bytes when it was unpacked."""

    value: JsonValue
    size: int

    @property
    def is_large(self) -> bool:
        return self.size > LARGE


def add_capture_routes(app: web.Application, services: Services, budget: BodyBudget, beside: Beside) -> None:
    """Add every path that an SDK asks for, with and without its last slash; none where PostHog is no source."""
    source = services.sources.get("posthog")
    if not isinstance(source, PostHogSource):
        return
    capture = _Capture(services, source, budget, beside)
    routes: list[tuple[tuple[str, ...], str, _Handler]] = [
        (CAPTURE_PATHS, "POST", capture.receive),
        (FLAG_PATHS, "POST", _configuration),
        (FLAG_PATHS, "GET", _configuration),
        (CONFIG_PATHS, "GET", _remote_configuration),
        ((RECORDING_PATH,), "POST", _dropped),
    ]
    for paths, method, handler in routes:
        for path in paths:
            for place in _spellings(path):
                app.router.add_route(method, place, _for_any_origin(handler))
    for path in (*CAPTURE_PATHS, *FLAG_PATHS, *CONFIG_PATHS, RECORDING_PATH):
        for place in _spellings(path):
            app.router.add_route("OPTIONS", place, _for_any_origin(_preflight))


def _spellings(path: str) -> tuple[str, ...]:
    ways = (path, path.rstrip("/")) if path.endswith("/") else (path,)
    return (*ways, *(PROXY_PREFIX + way for way in ways))


class _Capture:
    """Takes captures, and counts and logs them as deliveries are."""

    def __init__(self, services: Services, source: PostHogSource, budget: BodyBudget, beside: Beside) -> None:
        self._services = services
        self._source = source
        self._budget = budget
        self._counted = Counted(services.metrics, source.name)
        self._refused = Refused(source.name)
        self._beside = beside

    async def receive(self, request: web.Request) -> web.Response:
        begun = perf_counter()
        try:
            response = await self._receive(request)
        except LoopsError as error:
            response = refusal(error)
            # One line for all keys: anybody can make up another.
            self._refused.add("", response.status, error)
        self._counted.add(response.status, perf_counter() - begun)
        return response

    async def _receive(self, request: web.Request) -> web.Response:
        compression = request.query.get("compression", "")
        if compression.startswith("lz64"):
            hint = "use a posthog-js that packs with gzip"
            raise PayloadMalformed("compression lz64 is not read", path="compression", hint=hint)
        body, held = await read_body(request, LIMIT, self._budget)
        try:
            decoded = await self._decode(body)
            key = api_key(decoded.value) or request.query.get("token") or request.query.get("api_key")
            if not key:
                raise SignatureInvalid("api_key is missing", hint="send the project API key as api_key")
            connection = await self._services.book.by_api_key("posthog", key)
            if connection is None:
                raise SignatureInvalid(
                    "the api_key is of no connection", hint="loops integrations create posthog --set api_key=…"
                )
            read = partial(self._source.captured, decoded.value, len(body), decoded.size)
            arrival = await self._beside.run(read) if decoded.is_large else read()
            incoming = Incoming(request.headers, body)
            await self._services.intake.accept(self._source, connection, incoming, arrival)
        finally:
            self._budget.give_back(held)
        # 200 and nothing else: on another status the SDKs send again.
        return _answer(_STATUS)

    async def _decode(self, body: bytes) -> _Decoded:
        """What is small at once, also unpacked; what is large off the event loop and few at a time."""
        if len(body) <= LARGE:
            try:
                return _decoded(body, LARGE)
            except PayloadTooLarge:
                pass  # it unpacks to more: off the loop it may
        return await self._beside.run(partial(_decoded, body, LIMIT))


def _decoded(body: bytes, limit: int) -> _Decoded:
    unpacked = unpack(body, limit)
    return _Decoded(decode(unpacked), len(unpacked))


async def _configuration(_request: web.Request) -> web.Response:
    return _answer(_CONFIGURATION)


async def _remote_configuration(request: web.Request) -> web.Response:
    """What posthog-js loads before anything else; as a script it expects to be told nothing."""
    if request.path.endswith(".js"):
        return web.Response(text="", content_type="application/javascript")
    return _answer(_CONFIGURATION)


async def _dropped(_request: web.Request) -> web.Response:
    """Session recordings: taken and forgotten, the body unread."""
    return _answer(_STATUS)


async def _preflight(_request: web.Request) -> web.Response:
    return web.Response(status=204)


def _answer(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), headers=_JSON)


def _for_any_origin(handler: _Handler) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        return for_any_origin(request, await handler(request))

    return answer


def for_any_origin(request: web.Request, response: web.Response) -> web.Response:
    """The response, so that a browser lets a page of any origin read it."""
    origin = _sent_back(request.headers.get("Origin"))
    response.headers["Access-Control-Allow-Origin"] = origin or "*"
    response.headers["Vary"] = "Origin"
    if origin is not None:
        # posthog-js sends with credentials where it cannot use fetch; a star would then be refused by the browser.
        response.headers["Access-Control-Allow-Credentials"] = "true"
    if request.method == "OPTIONS":
        wanted = _sent_back(request.headers.get("Access-Control-Request-Headers"))
        response.headers["Access-Control-Allow-Methods"] = "GET, POST, OPTIONS"
        response.headers["Access-Control-Allow-Headers"] = wanted or "Content-Type, X-Requested-With"
        response.headers["Access-Control-Max-Age"] = _DAY
    return response


def _sent_back(value: str | None) -> str | None:
    """A header's value, if it can stand in an answer."""
    if value is None or not value or len(value) > _LONGEST_HEADER:
        return None
    return value if value.isascii() and value.isprintable() else None
