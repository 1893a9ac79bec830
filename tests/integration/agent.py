"""An agent without a mind: the real client of the protocol, and what tests read of its results."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

Era = Literal["auto", "legacy"]


class Agent:
    """Calls tools. Both forms of each result have to say the same."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> dict[str, types.Tool]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}

    async def raw(self, tool: str, **arguments: Any) -> types.CallToolResult:
        came = await self.client.call_tool(tool, arguments)
        (text,) = came.content
        assert isinstance(text, types.TextContent)
        assert json.loads(text.text) == came.structured_content
        return came

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a call gives that succeeds, out of its notice where it has one."""
        came = await self.raw(tool, **arguments)
        assert not came.is_error, came.structured_content
        assert came.structured_content is not None
        if "notice" in came.structured_content:
            assert came.structured_content.keys() == {"notice", "result"}
            return came.structured_content["result"]
        return came.structured_content

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that fails."""
        came = await self.raw(tool, **arguments)
        assert came.is_error, came.structured_content
        assert came.structured_content is not None
        error: dict[str, Any] = came.structured_content["error"]
        return error


@asynccontextmanager
async def agent_at(url: str, token: str, era: Era = "auto", path: str = "/mcp") -> AsyncIterator[Agent]:
    """An agent with this token, which speaks the newest version of the protocol or one with a handshake."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http,
        Client(streamable_http_client(url + path, http_client=http), mode=era) as client,
    ):
        yield Agent(client)
