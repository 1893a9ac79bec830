"""What no route takes: told to programs as the API tells its errors, to people as a page."""

from collections.abc import Mapping
from types import MappingProxyType

from aiohttp import web

from server.api.capture import FIRST_PIECES, for_any_origin
from server.api.errors import nothing_here
from server.pages import nowhere_page

_CAPTURED = "docs/guides/connect-posthog.md says what SDKs may ask for"
# By the first piece of the path: what mends it, where programs ask.
_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "hooks": "loops integrations list shows the address of each hook, loops webhook WORKFLOW that of a webhook",
        "mcp": "the protocol is spoken at /mcp, unless LOOPS_MCP is off",
        **dict.fromkeys(("live", "ready", "metrics"), "leave out what stands behind it"),
        **dict.fromkeys(FIRST_PIECES, _CAPTURED),
    }
)


_ANYWHERE, _CANONICAL = "/{anywhere:.*}", "/{anywhere}"


def add_nowhere(app: web.Application) -> None:
    """Add what answers for every other path, and for every other method of a path that there is. To be added last."""
    app.router.add_route("*", _ANYWHERE, _answer)


async def _answer(request: web.Request) -> web.Response:
    allowed = await _allowed(request)
    first = request.path.lstrip("/").partition("/")[0]
    if first not in _HINTS:
        return await nowhere_page(request, allowed)
    refused = nothing_here(request, allowed, _HINTS[first])
    return for_any_origin(request, refused) if allowed and first in FIRST_PIECES else refused


async def _allowed(request: web.Request) -> set[str]:
    """The methods that this path takes; none where there is no such path."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        if resource.canonical != _CANONICAL:
            allowed |= (await resource.resolve(request))[1]
    return allowed
