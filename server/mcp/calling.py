"""Which tools somebody has, and what a call of one comes to. Nothing here knows the protocol."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.errors import LoopsError, NotAllowed
from server.api.call import Call
from server.api.errors import INTERNAL
from server.auth import Principal, require
from server.mcp.arguments import check_arguments
from server.mcp.results import Result, refused, told
from server.mcp.tool import Tool, request_of
from server.mcp.tools import TOOLS
from server.services import Services

log = logging.getLogger("loops.mcp")

_BY_NAME = {tool.name: tool for tool in TOOLS}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: `read_only` where they, or the service, want nothing changed."""

    services: Services
    principal: Principal
    read_only: bool

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that it is shown, always in the same order: what agents keep of it stays valid."""
        return [tool for tool in TOOLS if tool.shown_to(self.principal.role, read_only=self.read_only)]


def tool_named(name: str) -> Tool | None:
    """The tool of this name, whoever may call it."""
    return _BY_NAME.get(name)


async def call_tool(caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> Result:
    """Call it. Whatever goes wrong is told as a result with `is_error`."""
    try:
        result = await _call(caller, tool, arguments)
    except LoopsError as error:
        if error.http_status >= 500:
            log.warning("a tool failed: %s", error.message, extra={"tool": tool.name})
        result = refused(error, outside=tool.outside)
    except Exception:
        log.exception("a tool failed", extra={"tool": tool.name})
        result = Result({"error": INTERNAL}, is_error=True)
    caller.services.metrics.tool_calls.labels(tool.name, "refused" if result.is_error else "done").inc()
    return result


async def _call(caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> Result:
    require(caller.principal, tool.route.role)
    if caller.read_only and not tool.effect.read_only:
        raise NotAllowed(
            f"{tool.name} changes something, and this connection is read-only",
            hint="tell the person: LOOPS_MCP=full, an address without read_only, or loops mcp without --read-only",
        )
    check_arguments(tool, arguments)
    call = Call(request_of(tool, arguments), caller.services, caller.principal)
    response = await tool.route.handler(call)
    return told(json.loads(response.text or "{}"), outside=tool.outside)
