"""/skills and /mcp-connections: what tasks may name in later releases. Whoever asks is told that there is none yet."""

from aiohttp import web

from loops.definition.not_yet import INPUTS_TO_COME
from server.api.call import Call, answer

_INPUTS = INPUTS_TO_COME["template-posthog-create-task"]


async def skills(call: Call) -> web.Response:
    """Skills that a task may be given: none in this release, as `note` says."""
    return _none(call, "skills")


async def mcp_connections(call: Call) -> web.Response:
    """MCP connections that a task may be given as connectors: none in this release, as `note` says."""
    return _none(call, "connectors")


def _none(call: Call, what: str) -> web.Response:
    call.query("search", page=True)
    return answer({"items": [], "next": None, "note": f"{_INPUTS[what]}; leave {what} out of the task's inputs"})
