"""POST /mcp: who may ask, and for what. The protocol itself is loaded when somebody first asks for it."""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from loops.errors import LoopsError, Misdirected, NotAllowed, NotAuthenticated, RequestError
from loops.threads import off_loop
from server.access import came_by_socket, principal_of
from server.api.access import admitted
from server.api.call import answer
from server.api.errors import CHALLENGE, INTERNAL, refusal
from server.mcp.bridge import whole
from server.mcp.message import INVALID_REQUEST, misread
from server.services import SERVICES

if TYPE_CHECKING:
    from server.mcp.serving import Serving

log = logging.getLogger("loops.mcp")

PATHS = ("/mcp", "/mcp/{project}")
"""The second names a project; the first means the token's, or through the socket the first one."""

_SWITCH = {"false": False, "true": True}
# A code of JSON-RPC, beside those of messages.
_INTERNAL_ERROR = -32603


def register_mcp(app: web.Application) -> None:
    """Add the endpoint to an application that holds SERVICES, unless the settings say `off`."""
    if app[SERVICES].settings.mcp == "off":
        return
    endpoint = Endpoint()
    app.on_cleanup.append(endpoint.close)
    for path in PATHS:
        app.router.add_post(path, endpoint.answer)


class Endpoint:
    """Asks for a token, and refuses what a page of somebody else's may have sent; then the protocol answers.

    It has no sessions, so there is nothing that a GET could listen to or a DELETE end: both are answered 405.
    """

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._loading = asyncio.Lock()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request. What is refused here is told in the protocol's form, so that clients show it."""
        try:
            return await self._answer(request)
        except LoopsError as error:
            response = _error(INVALID_REQUEST, error.http_status, refusal(error))
            if isinstance(error, NotAuthenticated):
                response.headers["WWW-Authenticate"] = CHALLENGE
            return response
        except web.HTTPException as error:
            return _error(INVALID_REQUEST, error.status, {"message": error.reason})
        except Exception:
            log.exception("a call over MCP failed")
            return _error(_INTERNAL_ERROR, 500, INTERNAL)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        services = request.app[SERVICES]
        if not came_by_socket(request):
            refuse_foreign(request.host, request.headers.get("Origin", ""), services.public_url())
        call = await admitted(request, await principal_of(request, cookies=False))
        wrong = misread(await whole(request))
        if wrong is not None:
            status = 400 if wrong.id is None else 200
            return _error(wrong.code, status, {"message": wrong.message, "hint": wrong.hint}, wrong.id)
        read_only = services.settings.mcp == "read_only" or _asks_read_only(request)
        serving = await self._loaded()
        return await serving.answer(request, call, read_only=read_only)

    async def _loaded(self) -> "Serving":
        async with self._loading:
            if self._serving is None:
                serving_class = await off_loop(_load)
                self._serving = serving_class()
            return self._serving

    async def close(self, _app: web.Application) -> None:
        """Cancel what is still being called."""
        if self._serving is not None:
            await self._serving.aclose()


def _load() -> "type[Serving]":
    from server.mcp.serving import Serving

    return Serving


def _error(code: int, status: int, told: Mapping[str, object], number: str | int | None = None) -> web.Response:
    hint = told.get("hint")
    message = f"{told['message']} ({hint})" if hint else told["message"]
    return answer({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message, "data": told}}, status)


def _asks_read_only(request: web.Request) -> bool:
    said = request.query.getall("read_only", ["false"])
    for given in said:
        if given not in _SWITCH:
            raise RequestError(
                f"{given[:60]!r} is neither true nor false", hint="/mcp?read_only=true", path="read_only"
            )
    return any(_SWITCH[given] for given in said)


def refuse_foreign(host: str, origin: str, public_url: str) -> None:
    """Raises Misdirected or NotAllowed for what a browser was led into sending: a page whose name was made to lead here
    says its own name in Host, any other says itself in Origin."""
    name, ours = _name(host), urlsplit(public_url)
    if name not in {"localhost", ours.hostname} and not _is_address(name):
        raise Misdirected(
            f"this service is not known as {name[:60]!r}",
            hint=f"it is reached as {public_url}; LOOPS_PUBLIC_URL says so",
        )
    if origin and origin.lower() not in {public_url.lower(), f"{ours.scheme}://{host}".lower()}:
        raise NotAllowed("this was sent from a page of another origin", hint="pages of others have no way in here")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
