"""The REST API below /api/."""

import re

from aiohttp import web

from server.api.access import guarded
from server.api.errors import errors_as_json, nothing_here
from server.api.routes import PREFIX, ROUTES

_PIECE = re.compile(r"\{[^}]+\}")


def register_api(app: web.Application) -> None:
    """Add the API to an application that holds SERVICES."""
    api = web.Application()
    for route in ROUTES:
        handler = errors_as_json(guarded(route.handler, route.role))
        if route.method == "GET":
            api.router.add_get(route.path, handler)  # and HEAD
        else:
            api.router.add_route(route.method, route.path, handler)
    for rest in ("", "/{rest:.*}"):
        api.router.add_route("*", rest, _nothing_here)
    app.add_subapp(PREFIX, api)


async def _nothing_here(request: web.Request) -> web.StreamResponse:
    rest = "/" + request.match_info.get("rest", "")
    allowed = {route.method for route in ROUTES if re.fullmatch(_PIECE.sub("[^/]+", route.path), rest)}
    head = {"HEAD"} if "GET" in allowed else set()
    return nothing_here(request, allowed | head, "docs/reference/api.md lists every path")
