"""The REST API below /api/."""

from aiohttp import web

from server.api.access import guarded
from server.api.errors import errors_as_json
from server.api.routes import PREFIX, ROUTES


def register_api(app: web.Application) -> None:
    """Add the API to an application that holds SERVICES."""
    api = web.Application(middlewares=[errors_as_json])
    for route in ROUTES:
        handler = guarded(route.handler, route.role)
        if route.method == "GET":
            api.router.add_get(route.path, handler)  # and HEAD
        else:
            api.router.add_route(route.method, route.path, handler)
    app.add_subapp(PREFIX, api)
