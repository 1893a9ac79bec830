"""Signing in and out: a token is asked for once, and a signed cookie stands for it from then on."""

import logging
from collections import deque
from urllib.parse import parse_qs

from aiohttp import web

from loops.errors import NotAllowed
from loops.store import connections as store
from loops.store.connections import TokenRow
from server.auth import (
    SESSION_COOKIE,
    SESSION_LIFETIME,
    SESSION_PURPOSE,
    bearer_token,
    digest,
    same_origin,
    session_value,
)
from server.pages.addresses import SIGN_IN, local_path
from server.pages.rendering import rendered, see_other
from server.services import Services

log = logging.getLogger("loops.pages")

MOST_ATTEMPTS = 10
WINDOW_SECONDS = 60.0
_MOST_ADDRESSES = 10_000
_MOST_FORM = 8_192
_WRONG = "This is not a token of this service, or it was revoked."
_TOO_MANY = "Too many attempts from your address. Wait a minute, then try again."


class Attempts:
    """Counts attempts to sign in by address. Forgets the oldest addresses rather than grow without end."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[float]] = {}

    def admit(self, address: str, now: float) -> bool:
        """Whether one more attempt is allowed at `now`, in seconds; those that are not are not counted."""
        seen = self._seen.pop(address, deque())
        while seen and seen[0] <= now - WINDOW_SECONDS:
            seen.popleft()
        is_admitted = len(seen) < MOST_ATTEMPTS
        if is_admitted:
            seen.append(now)
        self._seen[address] = seen
        if len(self._seen) > _MOST_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        return is_admitted


class Sessions:
    """The handlers of /sign-in and /sign-out."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._attempts = Attempts()

    async def ask(self, request: web.Request) -> web.Response:
        """GET /sign-in"""
        return _form(local_path(request.query.get("next")))

    async def sign_in(self, request: web.Request) -> web.Response:
        """POST /sign-in"""
        self._check_origin(request)
        token, wanted = await _read_form(request)
        row = await self._token(token)
        if row is None:
            return self._refused(request, wanted)
        log.info("signed in", extra={"token_id": row.id, "address": request.remote})
        response = see_other(wanted)
        self._set_session(response, row.id)
        return response

    def _refused(self, request: web.Request, wanted: str) -> web.Response:
        """Only failures count, and the right token is never refused: behind a proxy everybody has one address."""
        if self._attempts.admit(request.remote or "", self._services.clock.now().timestamp()):
            log.warning("sign-in refused", extra={"address": request.remote})
            return _form(wanted, _WRONG, status=401)
        page = _form(local_path(None), _TOO_MANY, status=429)
        page.headers["Retry-After"] = str(int(WINDOW_SECONDS))
        return page

    def _check_origin(self, request: web.Request) -> None:
        if not same_origin(request.headers, self._services.public_url(), request.host):
            raise NotAllowed(
                "this was not sent from a page of this service",
                hint="open the sign-in page at its own address; LOOPS_PUBLIC_URL must be that address behind a proxy",
            )

    async def _token(self, text: str) -> TokenRow | None:
        token = bearer_token(f"Bearer {text}")
        if token is None:
            return None
        wanted = digest(token)
        return await self._services.reader.read(lambda connection: store.token_by_digest(connection, wanted))

    def _set_session(self, response: web.Response, token_id: str) -> None:
        key = self._services.box.derive(SESSION_PURPOSE)
        response.set_cookie(
            SESSION_COOKIE,
            session_value(key, token_id, self._services.clock.now() + SESSION_LIFETIME),
            max_age=int(SESSION_LIFETIME.total_seconds()),
            path="/",
            httponly=True,
            samesite="Lax",
            secure=self._services.public_url().startswith("https:"),
        )

    async def sign_out(self, request: web.Request) -> web.Response:
        """POST /sign-out"""
        self._check_origin(request)
        response = see_other(SIGN_IN)
        response.del_cookie(SESSION_COOKIE, path="/")
        return response


async def _read_form(request: web.Request) -> tuple[str, str]:
    """The token and the page that was wanted. A body that is no small form holds no token."""
    size = request.content_length
    if request.content_type != "application/x-www-form-urlencoded" or size is None or size > _MOST_FORM:
        return "", local_path(None)
    body = await request.read()
    try:
        form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:
        return "", local_path(None)
    return form.get("token", [""])[0].strip(), local_path(form.get("next", [""])[0])


def _form(wanted: str, error: str = "", status: int = 200) -> web.Response:
    return rendered("sign_in.html", status, who=None, wanted=wanted, error=error)
