"""One MCP server, reached over streamable HTTP or started as a command of the operator's: a session with its traps
handled once.

A session lives in an asyncio task of its own, since the scopes in the library have to be left by the task that entered
them; whoever calls a tool may be cancelled without harm to it. The library is loaded when the first session opens.
"""

import asyncio
import importlib
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loops.connections.book import OpenConnection
from loops.errors import ConfigError, ExternalError, Fault, Unreached
from loops.threads import off_loop

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

log = logging.getLogger("loops.connections")

OPEN_SECONDS = 20.0
CLOSE_SECONDS = 4.0
MOST_TOOLS = 1_000
"""Of one server, before any is left out."""
MOST_ANSWER = 8 << 20
"""Bytes of one answer over HTTP, and of one line of a command."""
TOKEN_VARIABLE = "MCP_TOKEN"  # noqa: S105 - its name
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_MOST_PAGES = 20
_LONGEST_REASON = 300


def is_enabled(config: Mapping[str, Any]) -> bool:
    """Whether tasks may be given this connection of kind mcp."""
    return str(config.get("enabled", "yes")) == "yes"


def listed_names(config: Mapping[str, Any], setting: str) -> frozenset[str] | None:
    """The names in a setting that lists tools; None where that is not set."""
    given = config.get(setting)
    return None if given is None else frozenset(str(given).split(","))


@dataclass(frozen=True, slots=True)
class McpServer:
    """Where a server is: at `url`, asked with `headers`, or started as `argv` with `environment`."""

    name: str
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    argv: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def server_of(connection: OpenConnection, commands: Mapping[str, Sequence[str]]) -> McpServer:
    """The server of a connection of kind mcp. Raises ConfigError for a command that the operator does not have."""
    config, secrets = connection.config, connection.secrets
    token, command = secrets.get("token"), config.get("command")
    if command is None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if "header" in secrets:
            name, _, value = secrets["header"].partition(":")
            headers[name.strip()] = value.strip()
        return McpServer(connection.name, str(config["url"]), headers)
    argv = commands.get(command)
    if argv is None:
        known = f"those set are: {', '.join(sorted(commands))}" if commands else "none are set in LOOPS_MCP_COMMANDS"
        message = f"there is no command {command!r}, which the connection {connection.name!r} names"
        raise ConfigError([Fault("LOOPS_MCP_COMMANDS", message, known)])
    return McpServer(connection.name, argv=argv, environment={} if token is None else {TOKEN_VARIABLE: token})


class McpSession:
    """A session with one server. `open` it, `close` it; in between any task may list and call."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._over = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._client: Client | None = None

    @property
    def alive(self) -> bool:
        """Whether anything can be asked of it."""
        return self._serving is not None and not self._serving.done()

    async def open(self) -> None:
        """Raises Unreached where the server cannot be reached, or does not speak the protocol."""
        await off_loop(_loaded)
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(ready), name=f"mcp-{self._server.name}")
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                self._client = await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise self._unreached(f"no session within {OPEN_SECONDS:g} seconds") from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session, and the command where it is one."""
        if self._serving is None:
            return
        self._over.set()
        if self._client is None:  # it is still opening, and listens to nothing else
            self._serving.cancel()
        _, open_still = await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)
        if open_still:
            self._serving.cancel()
            await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)

    async def tools(self) -> list["ListedTool"]:
        """Every tool that the server lists, the first MOST_TOOLS. Raises ExternalError."""
        found: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            try:
                page = await self._asked().list_tools(cursor=cursor)
            except Exception as error:  # the library passes on what its transports raise
                raise self._unreached(f"its tools cannot be listed: {_reason(error)}") from error
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) >= MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> "CallToolResult":
        """What a tool answers, an error of its own too. Raises TimeoutError, after which the session can be used;
        Unreached where the session is over; ExternalError for everything else that the server did."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        try:
            return await self._asked().call_tool(name, dict(arguments), read_timeout_seconds=seconds)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError from error
            if error.code == CONNECTION_CLOSED:
                raise self._unreached(_reason(error)) from error
            raise ExternalError(self._server.name, _reason(error)) from error
        except ValidationError as error:
            raise ExternalError(self._server.name, "its answer is not what the protocol says") from error
        except ExternalError:
            raise
        except Exception as error:  # the library passes on what its transports raise
            raise self._unreached(_reason(error)) from error

    def _asked(self) -> "Client":
        if self._client is None or not self.alive:
            raise self._unreached("its session has ended")
        return self._client

    def _unreached(self, reason: str) -> Unreached:
        return Unreached(self._server.name, "its tools", reason, sent=True)

    async def _serve(self, ready: "asyncio.Future[Client]") -> None:
        try:
            async with AsyncExitStack() as stack:
                transport = await stack.enter_async_context(_transport(self._server))
                client = await stack.enter_async_context(_client(transport))
                # What a server says of its results is its own claim, and a schema of it may take for ever to hold.
                client.session.validate_tool_result = _unheld  # type: ignore[method-assign,assignment]
                if not ready.done():
                    ready.set_result(client)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 - whatever ends a session, in the library or below it
            if not ready.done():
                ready.set_exception(self._unreached(_reason(error)))
            elif not self._over.is_set():
                log.warning("mcp session ended", extra={"connector": self._server.name, "reason": _reason(error)})
        finally:
            if not ready.done():
                ready.set_exception(self._unreached("the session was given up"))
                ready.exception()  # nobody may be left to ask for it


def _loaded() -> None:
    """Load the library, which takes a good part of a second, beside the event loop."""
    for name in ("mcp", "mcp.client.streamable_http", "loops.connections.bounded_http", "loops.connections.piped"):
        importlib.import_module(name)


async def _unheld(_name: str, _result: "CallToolResult") -> None:
    return None


def _client(transport: "AbstractAsyncContextManager[Any]") -> "Client":
    from mcp import Client
    from mcp_types import Implementation

    known = Implementation(name="loops", version="1")
    return Client(transport, read_timeout_seconds=OPEN_SECONDS, client_info=known, cache=None)


@asynccontextmanager
async def _transport(server: McpServer) -> "AsyncIterator[AbstractAsyncContextManager[Any]]":
    """What a client speaks over, and what has to be there as long as it does."""
    from mcp.client.streamable_http import streamable_http_client

    from loops.connections.bounded_http import bounded_client
    from loops.connections.piped import piped

    if server.argv:
        with _own_folder() as folder:
            yield piped(server.argv, _environment(server, folder), folder, MOST_ANSWER)
        return
    async with bounded_client(server.headers, MOST_ANSWER) as http:
        yield streamable_http_client(server.url, http_client=http)


@contextmanager
def _own_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loops-mcp-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _environment(server: McpServer, folder: Path) -> dict[str, str]:
    """What a command is given: nothing of ours, an empty home, and what is its own."""
    return {**_ENVIRONMENT, "HOME": str(folder), **server.environment}


def _reason(error: BaseException) -> str:
    """What an error says; of a group of them, what the first does."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split()) or type(error).__name__
    return words[:_LONGEST_REASON]
