"""The protocol over HTTP: what an endpoint has once somebody has asked for it."""

import asyncio

from aiohttp import web
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from server.api.call import Call
from server.mcp.bridge import bridged
from server.mcp.calling import Caller
from server.mcp.protocol import CALLER, own_server


class Serving:
    """Serves both eras of the protocol, without sessions: any process of a service may answer any call, also after a
    restart. Who goes away has their call cancelled."""

    def __init__(self) -> None:
        self._sessions = StreamableHTTPSessionManager(own_server(), stateless=True, json_response=False)
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
        return await bridged(self._sessions.handle_request, request, {CALLER: caller})

    async def aclose(self) -> None:
        """Cancel what is still being called."""
        self._over.set()
        await self._task
