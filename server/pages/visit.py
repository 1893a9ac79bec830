"""Who visits a page: every handler gets a Visit, and every failure becomes a page that says what happened."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import web

from loops.errors import LoopsError, NotAuthenticated
from server.access import principal_of
from server.auth import ROLES, Principal, Role, require
from server.pages.addresses import HOME, SIGN_IN, path_of
from server.pages.rendering import rendered, see_other
from server.services import SERVICES, Services

log = logging.getLogger("loops.pages")

_RETRY_AFTER = "5"
_TITLES = {400: "That cannot be read", 403: "Not allowed", 404: "Not found", 409: "Not possible now", 503: "Try again"}


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
        return rendered(template, status, who=self.who, **context)


Handler: TypeAlias = Callable[[Visit], Awaitable[web.Response]]
RawHandler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]


def visited(handler: Handler, role: Role = "viewer") -> RawHandler:
    """The handler of a page for those who are signed in and have this role."""

    async def answer(request: web.Request) -> web.Response:
        who: Principal | None = None
        try:
            who = await principal_of(request)
            require(who, role)
            return await handler(Visit(request, request.app[SERVICES], who))
        except NotAuthenticated:
            return see_other(_sign_in_from(request))
        except LoopsError as error:
            return refusal_page(error, who)
        except web.HTTPException as error:
            return rendered("error.html", error.status, who=who, title=error.reason, message="", hint="")
        except Exception:
            return fault_page(request, who)

    return answer


def _sign_in_from(request: web.Request) -> str:
    """The sign-in page, which leads back here; a change that was asked for is not made by coming back."""
    wanted = request.path_qs if request.method in {"GET", "HEAD"} else HOME
    return path_of(SIGN_IN.strip("/"), next=None if wanted in {"/", HOME} else wanted)


def refusal_page(error: LoopsError, who: Principal | None) -> web.Response:
    """What was refused on purpose, with what mends it."""
    status = error.http_status
    title = _TITLES.get(status, "This did not work")
    page = rendered("error.html", status, who=who, title=title, message=error.message, hint=error.hint)
    if status == 503:
        page.headers["Retry-After"] = _RETRY_AFTER
    return page


def fault_page(request: web.Request, who: Principal | None) -> web.Response:
    """What nobody expected, while it is handled: an id that leads to the log, and nothing of what went wrong."""
    number = secrets.token_hex(6)
    log.exception("a page failed", extra={"error_id": number, "path": request.path})
    return rendered(
        "error.html",
        500,
        who=who,
        title="Something went wrong here",
        message="It is not your doing. What happened is in the log of the service.",
        hint=f"look there for the error id {number}",
    )


async def not_found(request: web.Request) -> web.Response:
    """Any path that leads nowhere; it says so to everybody."""
    who: Principal | None = None
    try:
        who = await principal_of(request)
    except LoopsError:
        who = None
    message = "No page has this address."
    return rendered("error.html", 404, who=who, title=_TITLES[404], message=message, hint="")
