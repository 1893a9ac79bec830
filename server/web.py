"""The web application: which path leads to which handler."""

import logging

from aiohttp import web

from loops.errors import StoreBusy
from loops.store.readiness import touch_readiness
from server.api import register_api
from server.api.capture import add_capture_routes
from server.api.hooks import Beside, BodyBudget, receive_handler
from server.api.incoming import webhook_handler
from server.mcp.endpoint import register_mcp
from server.nowhere import add_nowhere
from server.pages import register_pages
from server.services import SERVICES, Services
from triggers.source import Source
from triggers.webhook import WebhookSource

log = logging.getLogger("loops.web")

_MOST_API_BODY = 4 * 1024 * 1024
_SIGNED = frozenset({"github", "slack"})
_SIGNED_AT_ONCE = 2


def make_app(services: Services) -> web.Application:
    """Hooks and health on the outer application, which has no middleware: every delivery passes through it."""
    app = web.Application(client_max_size=_MOST_API_BODY)
    app[SERVICES] = services
    budget = BodyBudget(services.settings.max_body_bytes_in_flight)
    # What anybody may send takes turns of its own: it must not hold up what is signed.
    strangers = Beside()
    for source in services.sources.values():
        if isinstance(source, WebhookSource):
            app.router.add_route("*", "/hooks/in/{token}", webhook_handler(services, source, budget, strangers))
            continue
        beside = Beside(_SIGNED_AT_ONCE) if source.name in _SIGNED else strangers
        app.router.add_post(_hook_path(source), receive_handler(services, source, budget, beside))
    add_capture_routes(app, services, budget, strangers)
    _add_health(app)
    register_api(app)
    register_mcp(app)
    register_pages(app)
    add_nowhere(app)
    return app


def make_health_app(services: Services) -> web.Application:
    """What a process that serves nobody tells: whether it is well, and its metrics."""
    app = web.Application()
    app[SERVICES] = services
    _add_health(app)
    return app


def _add_health(app: web.Application) -> None:
    app.router.add_get("/live", _live)
    app.router.add_get("/ready", _ready)
    app.router.add_get("/metrics", _metrics)


def _hook_path(source: Source) -> str:
    return f"/hooks/{source.name}/{{connection}}"


async def _live(_request: web.Request) -> web.Response:
    return web.json_response({"status": "live"})


async def _ready(request: web.Request) -> web.Response:
    """Whether this process can store a delivery now; a machine without a sandbox can, and says so."""
    services = request.app[SERVICES]
    try:
        await services.writer.run(touch_readiness)
    except StoreBusy as error:
        return web.json_response({"status": "not ready", "reason": error.message}, status=503)
    sandbox = {} if services.sandbox is None else {"sandbox": services.sandbox.words}
    return web.json_response({"status": "ready", **sandbox})


async def _metrics(request: web.Request) -> web.Response:
    body, content_type = request.app[SERVICES].metrics.render()
    return web.Response(body=body, headers={"Content-Type": content_type})
