"""MCP servers on loopback: one made by the SDK, and one that answers whatever a test wants it to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import ToolAnnotations

from server.mcp.bridge import bridged

READS = ToolAnnotations(read_only_hint=True)
TOKEN = "mcp-token-of-a-test"


def sdk_server() -> MCPServer:
    """A small server as its author would write it."""
    server = MCPServer("pages")

    @server.tool(annotations=READS)
    def search(query: str) -> str:
        """Find pages by words."""
        return f"two pages about {query}"

    @server.tool()
    def rename(page: str, name: str) -> str:
        """Give a page another name."""
        return f"{page} is {name} now"

    @server.tool(annotations=READS)
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    return server


@dataclass(slots=True)
class Loopback:
    """Where a server listens, and the Authorization header of each request that it got."""

    url: str = ""
    seen: list[str] = field(default_factory=list)


@asynccontextmanager
async def over_http(server: MCPServer) -> AsyncIterator[Loopback]:
    """A server of the SDK over streamable HTTP."""
    manager = StreamableHTTPSessionManager(server._lowlevel_server)
    place, started, over = Loopback(), asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with manager.run():
            started.set()
            await over.wait()

    async def answer(request: web.Request) -> web.StreamResponse:
        place.seen.append(request.headers.get("Authorization", ""))
        return await bridged(manager.handle_request, request, {})

    serving = asyncio.create_task(serve())
    await started.wait()
    async with _listening(answer) as url:
        place.url = url
        yield place
    over.set()
    await serving


@asynccontextmanager
async def _listening(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""The result of a call, given its parameters."""


@dataclass(slots=True)
class Hostile:
    """A server without the SDK: `tools` is what it lists, `call` what it answers. With `down` it drops whatever comes,
    with `raw` it answers that instead of the protocol."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    call: Answer | None = None
    raw: bytes | None = None
    down: bool = False
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    sessions: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        if self.down:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=500)
        asked = json.loads(await request.read())
        if self.raw is not None and asked["method"] == "tools/call":
            return web.Response(body=self.raw, content_type="application/json", headers=self.headers)
        if "id" not in asked:
            return web.Response(status=202)
        result = await self._result(asked["method"], asked.get("params") or {})
        if result is None:
            told = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}
        else:
            told = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        return web.json_response(told)

    async def _result(self, method: str, params: Mapping[str, Any]) -> Any:
        match method:
            case "initialize":
                self.sessions += 1
                server = {"name": "hostile", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                return {"tools": self.tools}
            case "tools/call" if self.call is not None:
                self.called.append(params["name"])
                return await self.call(params)
        return None


@asynccontextmanager
async def hostile(tools: list[dict[str, Any]], call: Answer | None = None) -> AsyncIterator[Hostile]:
    """A server that does as the test says."""
    server = Hostile(tools, call)
    async with _listening(server.answer) as url:
        server.url = url
        yield server


def listed(name: str, description: str = "Looks.", *, reads: bool = True, schema: Any = None) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {
        "name": name,
        "description": description,
        "inputSchema": schema or {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": reads},
    }


def says(text: str, **more: Any) -> dict[str, Any]:
    """A result that says something."""
    return {"content": [{"type": "text", "text": text}], **more}
