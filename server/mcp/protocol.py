"""The server of the protocol: the library's own, with our tools."""

from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from server.mcp.calling import Caller, call_tool, tool_named
from server.mcp.results import Result
from server.mcp.tool import Tool
from server.mcp.tools import INSTRUCTIONS

CALLER = "loops.caller"
"""Where the scope of a request holds its Caller."""

Context: TypeAlias = ServerRequestContext[Any, Request]
Listing: TypeAlias = Callable[[Context], Awaitable[types.ListToolsResult]]
Calling: TypeAlias = Callable[[Context, types.CallToolRequestParams], Awaitable[types.CallToolResult]]


def make_server(listing: Listing, calling: Calling) -> Server[Any]:
    """A server whose tools are what `listing` gives; `calling` calls one."""

    async def list_tools(context: Context, _page: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return await listing(context)

    async def call(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await calling(context, params)

    return Server(
        "loops",
        version=_version(),
        title="Loops",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
        # No tool of ours has an argument that is a header: without this each call would ask for the whole list.
        get_tool_input_schema=lambda _name: None,
    )


def own_server() -> Server[Any]:
    """The server of this process: who calls stands in the scope of each request, at CALLER."""
    return make_server(_listed, _called)


async def _listed(context: Context) -> types.ListToolsResult:
    return types.ListToolsResult(tools=_shown(_caller(context).tools))


async def _called(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    tool = tool_named(params.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:60]!r}; tools/list names them all")
    return _as_result(await call_tool(_caller(context), tool, params.arguments or {}))


def _caller(context: Context) -> Caller:
    caller: Caller = cast("Request", context.request).scope[CALLER]
    return caller


def _shown(tools: Sequence[Tool]) -> list[types.Tool]:
    return [
        types.Tool(
            name=tool.name,
            description=tool.does,
            input_schema=dict(tool.takes),
            annotations=types.ToolAnnotations(
                read_only_hint=tool.effect.read_only,
                destructive_hint=tool.effect.destructive,
                idempotent_hint=tool.effect.repeatable,
                open_world_hint=tool.effect.outward,
            ),
        )
        for tool in tools
    ]


def _as_result(result: Result) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)],
        structured_content=dict(result.value),
        is_error=result.is_error,
    )


def _version() -> str:
    try:
        return version("loops")
    except PackageNotFoundError:  # run from a source tree
        return ""
