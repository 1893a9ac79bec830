"""How an error leaves the API."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from loops.errors import ArgumentsRefused, DefinitionError, Fault, LoopsError, NotAuthenticated
from server.api.call import answer, told

log = logging.getLogger("loops.api")

CHALLENGE = 'Bearer realm="loops"'
_RETRY_AFTER = "5"
INTERNAL = {"code": "loops.internal", "message": "something went wrong here", "hint": "the log has the details"}
_WORDS = {
    404: ("request.not_found", "there is nothing at {method} {path}", "docs/reference/api.md lists every path"),
    405: ("request.method", "{path} does not take {method}", ""),
    413: ("request.too_large", "the body is too large", "at most 4 MiB"),
}


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
            return _http_error(request, error)
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


def _http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    code, words, hint = _WORDS.get(error.status, ("request.invalid", "", ""))
    message = words.format(method=request.method, path=request.path) if words else error.reason
    shown = {"code": code, "message": message}
    if hint:
        shown["hint"] = hint
    response = answer({"error": shown}, error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
