"""The protocol over HTTP: what an endpoint has once somebody has asked for it."""

import asyncio
from typing import cast

import mcp_types as types
from aiohttp import web
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from server.api.call import Call
from server.mcp.bridge import bridged
from server.mcp.calling import Caller, call_tool, tool_named
from server.mcp.protocol import Context, make_server
from server.mcp.results import Result
from server.mcp.tool import Tool

_CALLER = "loops.caller"
"""Where the scope of a request holds its Caller."""


class Serving:
    """Serves both eras of the protocol, without sessions: any process of a service may answer any call, also after a
    restart. Who goes away has their call cancelled."""

    def __init__(self) -> None:
        self._sessions = StreamableHTTPSessionManager(make_server(_listing, _calling), stateless=True)
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        # The library's scopes have to be left by the task that entered them, so they get one of their own.
        self._task = asyncio.create_task(self._serve(), name="loops-mcp")

    async def _serve(self) -> None:
        async with self._sessions.run():
            self._ready.set()
            await self._over.wait()

    async def answer(self, request: web.Request, call: Call, *, read_only: bool) -> web.StreamResponse:
        """What the protocol answers to a request of whoever `call` says."""
        caller = Caller(call.services, call.principal, read_only)
        await self._ready.wait()
        return await bridged(self._sessions.handle_request, request, {_CALLER: caller})

    async def aclose(self) -> None:
        """Cancel what is still being called."""
        self._over.set()
        await self._task


async def _listing(context: Context) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_shown(tool) for tool in _caller(context).tools])


async def _calling(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    tool = tool_named(params.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:60]!r}; tools/list names them all")
    return _as_result(await call_tool(_caller(context), tool, params.arguments or {}))


def _caller(context: Context) -> Caller:
    caller: Caller = cast("Request", context.request).scope[_CALLER]
    return caller


def _shown(tool: Tool) -> types.Tool:
    effect = tool.effect
    return types.Tool(
        name=tool.name,
        description=tool.does,
        input_schema=dict(tool.takes),
        annotations=types.ToolAnnotations(
            read_only_hint=effect.read_only,
            destructive_hint=effect.destructive,
            idempotent_hint=effect.repeatable,
            open_world_hint=effect.outward,
        ),
    )


def _as_result(result: Result) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)],
        structured_content=dict(result.value),
        is_error=result.is_error,
    )
