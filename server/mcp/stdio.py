"""The same tools over standard input and output: each list and call is asked of the service, in a request of its own.

So nothing is lost when the service is started anew while an agent holds this process open.
"""

import json
from typing import TypeVar
from urllib.parse import quote

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from loops.errors import ExternalError
from server.mcp.protocol import Context, make_server
from server.whereabouts import Place

T = TypeVar("T", bound=types.Result)

_PATIENCE = httpx2.Timeout(30.0, read=300.0)


async def serve_stdio(place: Place, *, read_only: bool) -> None:
    """Serve until standard input ends. Raises ExternalError where the service does not answer, or refuses."""
    async with _http(place) as http:
        relay = _Relay(http, place, read_only=read_only)
        await relay.greet()
        server = make_server(relay.listing, relay.calling)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


def _http(place: Place) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {place.token}"} if place.token else {}
    transport = httpx2.AsyncHTTPTransport(uds=None if place.socket is None else str(place.socket))
    return httpx2.AsyncClient(transport=transport, headers=headers, timeout=_PATIENCE, trust_env=False)


class _Relay:
    def __init__(self, http: httpx2.AsyncClient, place: Place, *, read_only: bool) -> None:
        self._http = http
        self._told = place.url or f"the service at {place.socket}"
        base = place.url.rstrip("/") or "http://localhost"
        self._url = f"{base}/mcp/{quote(place.project, safe='')}" + ("?read_only=true" if read_only else "")

    async def greet(self) -> None:
        """Raises ExternalError where the service does not answer, or takes nothing from us."""
        try:
            await self._asked(types.ListToolsRequest(), types.ListToolsResult)
        except MCPError as error:
            raise ExternalError(self._told, error.message) from error

    async def listing(self, _context: Context) -> types.ListToolsResult:
        try:
            return await self._asked(types.ListToolsRequest(), types.ListToolsResult)
        except ExternalError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error

    async def calling(self, _context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = types.CallToolRequestParams(name=params.name, arguments=params.arguments)
        try:
            return await self._asked(types.CallToolRequest(params=call), types.CallToolResult)
        except ExternalError as error:
            told = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
            content = [types.TextContent(text=json.dumps(told))]
            return types.CallToolResult(content=content, structured_content=told, is_error=True)

    async def _asked(self, request: types.ClientRequest, result_type: type[T]) -> T:
        """What the service answers; both ends are ours, so the protocol's version need not be asked for. Raises
        MCPError for what it refuses, ExternalError where it gives no answer."""
        transport = streamable_http_client(self._url, http_client=self._http)
        refusal: MCPError | None = None
        try:
            async with Client(transport, mode=LATEST_MODERN_VERSION, cache=None) as client:
                try:
                    return await client.session.send_request(request, result_type)
                except MCPError as error:  # outside it would be one of a group
                    refusal = error
        except BaseExceptionGroup as several:
            if several.split(httpx2.TransportError)[1] is not None:
                raise
            failed = ExternalError(self._told, "does not answer")
            failed.hint = "it has to run: loops serve"
            raise failed from several
        raise refusal
