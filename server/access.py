"""Who asks: the principal behind a request, by token, by session cookie or by the private socket."""

import socket

from aiohttp import web

from loops.errors import NotAllowed, NotAuthenticated
from loops.store import connections as store
from loops.store.connections import TokenRow
from loops.store.database import DEFAULT_PROJECT
from server.auth import (
    SESSION_COOKIE,
    SESSION_PURPOSE,
    Principal,
    bearer_token,
    digest,
    parse_role,
    read_session,
    same_origin,
)
from server.services import SERVICES

LOCAL = "local"
"""In place of a token's id: whoever may open the socket in the data folder may read the database as well."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_HOW = "send Authorization: Bearer with a token; loops token create makes one"


async def principal_of(request: web.Request, *, cookies: bool = True) -> Principal:
    """Who sent this request.

    An Authorization header decides alone; without one the private socket is an admin of the project in the path, and a
    session cookie, where `cookies` count, stands for its token. Raises NotAuthenticated, or NotAllowed when a cookie
    came with a change that no page of ours sent.
    """
    if "Authorization" in request.headers:
        return await _by_token(request)
    if came_by_socket(request):
        project = request.match_info.get("project", DEFAULT_PROJECT)
        return Principal(LOCAL, project, "admin", "this machine")
    if cookies and SESSION_COOKIE in request.cookies:
        return await _by_session(request)
    raise NotAuthenticated("this needs a token", hint=_HOW)


async def _by_token(request: web.Request) -> Principal:
    token = bearer_token(request.headers["Authorization"])
    if token is None:
        raise NotAuthenticated("the Authorization header holds no token of Loops", hint=_HOW)
    wanted = digest(token)
    reader = request.config_dict[SERVICES].reader
    row = await reader.read(lambda connection: store.token_by_digest(connection, wanted))
    if row is None:
        raise NotAuthenticated("the token is not known or was revoked", hint=_HOW)
    return _principal(row)


async def _by_session(request: web.Request) -> Principal:
    services = request.config_dict[SERVICES]
    key = services.box.derive(SESSION_PURPOSE)
    token_id = read_session(key, request.cookies[SESSION_COOKIE], services.clock.now())
    if token_id is None:
        raise NotAuthenticated("the session has ended", hint="sign in again")
    row = await services.reader.read(lambda connection: store.token_by_id(connection, token_id))
    if row is None:
        raise NotAuthenticated("the token of this session was revoked", hint="sign in with another token")
    if request.method not in _SAFE_METHODS and not same_origin(request.headers, services.public_url(), request.host):
        raise NotAllowed(
            "this change was not sent from a page of this service", hint="programs send Authorization: Bearer instead"
        )
    return _principal(row)


def came_by_socket(request: web.Request) -> bool:
    """Whether it came through the socket in the data folder."""
    connected = request.get_extra_info("socket")
    return connected is not None and connected.family == socket.AF_UNIX


def _principal(row: TokenRow) -> Principal:
    return Principal(row.id, row.project_id, parse_role(row.role), row.name)
