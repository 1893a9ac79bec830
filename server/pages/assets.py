"""The few files that pages load: small, so kept in memory, and named by what is in them, so kept by browsers."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aiohttp import web

from server.api.errors import nothing_here

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_HEADERS = {
    # An SVG is a document when it is opened by itself.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, and the short digest by which browsers tell one release of it from the next."""

    body: bytes
    content_type: str
    version: str


@cache
def _assets() -> dict[str, Asset]:
    found = {}
    for file in sorted(Path(__file__).with_name("static").iterdir()):
        if file.suffix in _TYPES:
            body = file.read_bytes()
            found[file.name] = Asset(body, _TYPES[file.suffix], hashlib.sha256(body).hexdigest()[:12])
    return found


def address(name: str) -> str:
    """Where pages find an asset."""
    return f"/static/{name}?v={_assets()[name].version}"


async def serve_asset(request: web.Request) -> web.Response:
    """GET /static/{name}"""
    asset = _assets().get(request.match_info["name"])
    if asset is None:
        refused = nothing_here(request, (), "each page names its own assets: load it anew")
        refused.headers.update(_HEADERS)
        return refused
    is_named = request.query.get("v") == asset.version
    return web.Response(
        body=asset.body,
        content_type=asset.content_type,
        charset="utf-8",
        headers={**_HEADERS, "Cache-Control": _FOREVER if is_named else "no-cache"},
    )
