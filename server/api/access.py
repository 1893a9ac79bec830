"""Which calls a sender may make."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from loops.errors import NotFound
from loops.store import projects
from server.access import LOCAL, principal_of
from server.api.call import Call, Handler
from server.auth import Principal, Role, require
from server.services import SERVICES


def guarded(handler: Handler, role: Role) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler behind its conditions: a known sender, of the project in the path, with at least this role."""

    async def guard(request: web.Request) -> web.Response:
        call = await admitted(request, await principal_of(request))
        require(call.principal, role)
        return await handler(call)

    return guard


async def admitted(request: web.Request, principal: Principal) -> Call:
    """A call of whoever sent the request, in the project that the path names, or theirs where it names none."""
    call = Call(request, request.config_dict[SERVICES], principal)
    wanted = request.match_info.get("project", call.project)
    if wanted != call.project or (principal.token_id == LOCAL and not await _exists(call)):
        # The same words for a foreign project and for none: who asks learns nothing about others.
        raise NotFound(f"there is no project {wanted[:60]!r} for this token", path="project")
    return call


async def _exists(call: Call) -> bool:
    project = call.project
    return project.isprintable() and await call.services.reader.read(
        lambda connection: projects.exists(connection, project)
    )
