"""Who visits a page: every handler gets a Visit, and every failure becomes a page that says what happened."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import web

from loops.errors import LoopsError, NotAuthenticated
from server.access import principal_of
from server.auth import ROLES, Principal, Role, require
from server.pages.addresses import HOME, SIGN_IN, path_of
from server.pages.rendering import rendered, see_other
from server.sandbox import sandbox_warning
from server.services import SERVICES, Services

log = logging.getLogger("loops.pages")

_RETRY_AFTER = "5"
_TITLES = {
    400: "That cannot be read",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    409: "Not possible now",
    503: "Not possible now",
}
_FAULT = "It is not your doing. The log of the service tells what happened, under the error id {}."


@dataclass(frozen=True, slots=True)
class Visit:
    """A request by somebody who is signed in."""

    request: web.Request
    services: Services
    who: Principal

    def may(self, role: Role) -> bool:
        """Whether the visitor has at least this role: what to offer, never what to allow."""
        return ROLES.index(self.who.role) >= ROLES.index(role)

    def show(self, template: str, status: int = 200, **context: Any) -> web.Response:  # noqa: ANN401
        """A page for this visitor."""
        warning = sandbox_warning(self.services.settings)
        return rendered(template, status, who=self.who, warning=warning, **context)


Handler: TypeAlias = Callable[[Visit], Awaitable[web.Response]]
RawHandler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]

_WHO = web.RequestKey("who", Principal)


def visited(handler: Handler, role: Role = "viewer") -> RawHandler:
    """The handler of a page for those who are signed in and have this role."""

    async def visit(request: web.Request) -> web.Response:
        try:
            who = request[_WHO] = await principal_of(request)
        except NotAuthenticated:
            return see_other(_sign_in_from(request))
        require(who, role)
        return await handler(Visit(request, request.app[SERVICES], who))

    return answered(visit)


def answered(handler: RawHandler) -> RawHandler:
    """The handler with every failure made into a page."""

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except LoopsError as error:
            return _refusal_page(request, error)
        except web.HTTPException as error:
            return _error_page(request, error.status, error.reason)
        except Exception:
            # The page says nothing of what went wrong; its id leads to the log.
            error_id = secrets.token_hex(6)
            log.exception("a page failed", extra={"error_id": error_id, "path": request.path})
            return _error_page(request, 500, "Something went wrong here", _FAULT.format(error_id))

    return answer


def _sign_in_from(request: web.Request) -> str:
    """The sign-in page, which leads back here; a change that was asked for is not made by coming back."""
    wanted = request.path_qs if request.method in {"GET", "HEAD"} else HOME
    return path_of(SIGN_IN.strip("/"), next=None if wanted in {"/", HOME} else wanted)


def _refusal_page(request: web.Request, error: LoopsError) -> web.Response:
    """What was refused on purpose, with what mends it."""
    status = error.http_status
    if status >= 500:
        log.warning("a page was refused: %s", error.message, extra={"path": request.path})
    page = _error_page(request, status, _TITLES.get(status, "This did not work"), error.message, error.hint)
    if error.retryable:
        page.headers["Retry-After"] = _RETRY_AFTER
    return page


def _error_page(request: web.Request, status: int, title: str, message: str = "", hint: str = "") -> web.Response:
    return rendered("error.html", status, who=request.get(_WHO), title=title, message=message, hint=hint)


async def nowhere_page(request: web.Request, allowed: Collection[str]) -> web.Response:
    """Any path that leads nowhere, or takes other methods; it says so to everybody."""
    try:
        request[_WHO] = await principal_of(request)
    except LoopsError:
        log.debug("nothing there, and nobody signed in")
    if not allowed:
        return _error_page(request, 404, _TITLES[404], "No page has this address.")
    takes, told = sorted(allowed), f"This address does not take {request.method}."
    page = _error_page(request, 405, _TITLES[405], told, f"It takes {', '.join(takes)}.")
    page.headers["Allow"] = ",".join(takes)
    return page
