"""The server of the protocol: the library's own, with whatever gives and calls our tools behind it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from server.mcp.instructions import INSTRUCTIONS
from server.release import release

Context: TypeAlias = ServerRequestContext[Any, Any]
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
        version=release() or "",
        title="Loops",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
        # No argument of ours is a header: without this the library would list all tools before each call.
        get_tool_input_schema=lambda _name: None,
    )
