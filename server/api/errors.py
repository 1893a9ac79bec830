"""How an error leaves the API."""

import logging
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler

from loops.errors import ArgumentsRefused, DefinitionError, Fault, LoopsError, NotAuthenticated
from server.api.call import answer, told

log = logging.getLogger("loops.api")

CHALLENGE = 'Bearer realm="loops"'
_RETRY_AFTER = "5"
INTERNAL = {"code": "loops.internal", "message": "something went wrong here", "hint": "the log has the details"}
_TOO_LARGE = {"code": "request.too_large", "message": "the body is too large", "hint": "at most 4 MiB"}


def errors_as_json(handler: Handler) -> Handler:
    """The handler with every error in one form: {"error": {"code", "message", "path"?, "hint"?}}.

    Around each handler instead of a middleware: aiohttp would lead every delivery through a middleware's machinery.
    """

    async def safe(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except LoopsError as error:
            return _refusal(request, error)
        except web.HTTPException as error:
            return _http_error(error)
        except Exception:
            log.exception("an API call failed", extra={"method": request.method, "path": request.path})
            return answer({"error": INTERNAL}, 500)

    return safe


def refusal(error: LoopsError) -> dict[str, object]:
    """What was refused, with every fault of it."""
    shown = told(error)
    if isinstance(error, DefinitionError | ArgumentsRefused):
        shown["faults"] = faults_shown(error.faults)
    return shown


def _refusal(request: web.Request, error: LoopsError) -> web.Response:
    shown = refusal(error)
    if error.http_status >= 500:
        log.warning("an API call failed: %s", error.message, extra={"method": request.method, "path": request.path})
    response = answer({"error": shown}, error.http_status)
    if error.retryable:
        response.headers["Retry-After"] = _RETRY_AFTER
    if isinstance(error, NotAuthenticated):
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def faults_shown(faults: tuple[Fault, ...]) -> list[dict[str, str]]:
    """Faults or warnings of a definition; those that lint knows have their code."""
    return [
        {"path": one.path, "message": one.message, "hint": one.hint, **({"code": one.code} if one.code else {})}
        for one in faults
    ]


def nothing_here(request: web.Request, allowed: Collection[str], hint: str) -> web.Response:
    """What no route takes: 405 with the methods that the path takes, or 404 and `hint` where there is no such path."""
    if not allowed:
        message = f"there is nothing at {request.method} {request.path}"
        return answer({"error": {"code": "request.not_found", "message": message, "hint": hint}}, 404)
    takes = sorted(allowed)
    message = f"{request.path} does not take {request.method}"
    response = answer(
        {"error": {"code": "request.method", "message": message, "hint": f"it takes {', '.join(takes)}"}}, 405
    )
    response.headers["Allow"] = ",".join(takes)
    return response


def _http_error(error: web.HTTPException) -> web.Response:
    shown = _TOO_LARGE if error.status == 413 else {"code": "request.invalid", "message": error.reason}
    return answer({"error": shown}, error.status)
