"""The REST API below /api/."""

import re

from aiohttp import web

from server.api.access import guarded
from server.api.errors import errors_as_json
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
    api.router.add_route("*", "/{rest:.*}", errors_as_json(_nothing_here))
    app.add_subapp(PREFIX, api)


async def _nothing_here(request: web.Request) -> web.StreamResponse:
    """What no route takes: 405 where the path is one with other methods, else 404."""
    rest = "/" + request.match_info["rest"]
    allowed = {route.method for route in ROUTES if re.fullmatch(_PIECE.sub("[^/]+", route.path), rest)}
    if not allowed:
        raise web.HTTPNotFound
    raise web.HTTPMethodNotAllowed(request.method, allowed | ({"HEAD"} if "GET" in allowed else set()))
