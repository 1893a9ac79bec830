"""Connectors as equipment: sessions with MCP servers for as long as a task is worked on.

The list of tools is frozen when the task begins and kept with it: an agent that is taken up elsewhere has the same one,
whatever its servers list by then.
"""

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from loops.agent.tools import Resources
from loops.agent.tools.connector import Allowed, ConnectorTool, Described, Offered, fenced, offered, prefix_of
from loops.agent.tools.tool import ToolError
from loops.connections.book import ConnectionBook, OpenConnection
from loops.connections.mcp import McpServer, McpSession, is_enabled, listed_names, server_of
from loops.errors import ExternalError, NotFound, RequestError, Unreached
from loops.event import JsonValue
from loops.ports import Clock, Writer
from loops.store import tasks as store
from loops.store.patience import persist
from loops.tasks.equipment import Job, Kit
from loops.threads import off_loop

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

log = logging.getLogger("loops.tasks")

GIVEN = "connectors"
CALL_SECONDS = 45.0
"""For how long a tool is waited for: less than the agent's own limit, so that the session is told."""
_LONGEST_ERROR = 2_000


class Line:
    """The line to one server during one task: a session, and one more where that ends."""

    def __init__(self, server: McpServer, seconds: float = CALL_SECONDS) -> None:
        self._server = server
        self._seconds = seconds
        self._session = McpSession(server)
        self._opening = asyncio.Lock()
        self._again = True

    async def open(self) -> Sequence["ListedTool"]:
        """What the server lists. Raises ExternalError."""
        await self._session.open()
        return await self._session.tools()

    async def connect(self) -> None:
        """A session without asking for the list; what cannot be reached is told by the first call."""
        try:
            await self._session.open()
        except Unreached as error:
            log.warning("connector is not there: %s", error.message)

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> JsonValue:
        """Fills Ask."""
        await self._reconnected()
        try:
            answer = await self._session.call(name, arguments, self._seconds)
        except TimeoutError:
            words = f"no result within {self._seconds:g} seconds; it may have taken effect"
            raise ToolError("TIMEOUT", words, "ask for less at once") from None
        except Unreached as error:
            await self._session.close()
            hint = "it may have taken effect; another call tries a new session" if self._again else "go on without it"
            raise ToolError("CONNECTOR_LOST", error.message, hint) from error
        except ExternalError as error:
            raise ToolError("CONNECTOR_FAILED", error.message, "mend the call, or go on without it") from error
        return _told(self._server.name, answer)

    async def _reconnected(self) -> None:
        """A session that is alive: a second one at most."""
        async with self._opening:
            if self._session.alive:
                return
            if not self._again:
                raise ToolError(
                    "CONNECTOR_LOST", f"{self._server.name}: its session has ended again", "go on without it"
                )
            self._again = False
            self._session = McpSession(self._server)
            try:
                await self._session.open()
            except Unreached as error:
                raise ToolError("CONNECTOR_LOST", error.message, "go on without it") from error


def _told(connector: str, answer: "CallToolResult") -> JsonValue:
    texts: list[str] = []
    left_out: list[str] = []
    for part in answer.content:
        resource = getattr(part, "resource", None)
        text = getattr(part, "text", None) or getattr(resource, "text", None)
        if isinstance(text, str):
            texts.append(text)
        elif part.type == "resource_link":
            texts.append(f"{part.name}: {part.uri}")
        elif part.type != "text":
            left_out.append(f"{part.type} {getattr(part, 'mime_type', None) or ''}".strip())
    if answer.is_error:
        words = "\n".join(texts)[:_LONGEST_ERROR] or "the tool failed and said nothing"
        raise ToolError("CONNECTOR_ERROR", f"{connector} says, as data: {words}", "mend the call, or go another way")
    return fenced(connector, texts, answer.structured_content, left_out)


def described(tool: "ListedTool") -> Described:
    """A tool of the library as a value of ours."""
    hint = tool.annotations is not None and tool.annotations.read_only_hint is True
    return Described(tool.name, tool.description or tool.title or "", dict(tool.input_schema), hint)


def allowed_by(config: Mapping[str, Any], *, read_only: bool) -> Allowed:
    """What the connection's settings allow."""
    return Allowed(read_only, listed_names(config, "tools"), listed_names(config, "reads"))


@dataclass(frozen=True, slots=True)
class Connectors:
    """Fills Equipment. `commands` are those of the operator; see LOOPS_MCP_COMMANDS."""

    writer: Writer
    clock: Clock
    book: ConnectionBook
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: float = CALL_SECONDS

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Kit | None]:
        """See Equipment."""
        wanted = sorted({str(one) for one in job.request.get("connectors") or ()}, key=lambda one: (len(one), one))
        if not wanted:
            yield None
            return
        found = [await self._connection(job, one) for one in wanted]
        await off_loop(lambda: importlib.import_module("loops.agent.tools.foreign_schema"))
        lines = {str(one.id): Line(server_of(one, self.commands), self.seconds) for one in found}
        try:
            offers = await self._offers(job, found, lines)
            tools = [ConnectorTool(offer, lines[number].ask) for number, offer in offers]
            yield Kit(partial(_with, tools))
        finally:
            await asyncio.gather(*(line.close() for line in lines.values()), return_exceptions=True)

    async def _connection(self, job: Job, wanted: str) -> OpenConnection:
        """The connection. Raises RequestError where the project does not share it, or no more."""
        try:
            found = await self.book.of_project(job.task.project_id, int(wanted) if wanted.isdecimal() else 0, "mcp")
        except NotFound:
            found = None
        if found is None or not is_enabled(found.config):
            hint = "loops integrations list --kind mcp shows those that can be named"
            raise RequestError(f"MCP server(s) not shared with the project or disabled: [{wanted}]", hint=hint)
        return found

    async def _offers(
        self, job: Job, found: Sequence[OpenConnection], lines: Mapping[str, Line]
    ) -> list[tuple[str, Offered]]:
        """What the agent is offered: as it was frozen, else what the servers list now, frozen by this."""
        kept = job.task.given.get(GIVEN)
        if kept is not None:
            await asyncio.gather(*(line.connect() for line in lines.values()))
            return [(number, Offered(**one)) for number, tools in kept.items() for one in tools if number in lines]
        listed = await asyncio.gather(*(lines[str(one.id)].open() for one in found))
        offers: dict[str, list[Offered]] = {}
        taken: frozenset[str] = frozenset()
        read_only = job.request.get("scopes") != "full"
        for connection, tools in zip(found, listed, strict=True):
            prefix = prefix_of(connection.name, taken, str(connection.id))
            taken |= {prefix}
            allowed = allowed_by(connection.config, read_only=read_only)
            fits = partial(offered, connection.name, prefix, [described(one) for one in tools], allowed)
            offers[str(connection.id)], left = await off_loop(fits)
            if left:
                log.info("tools of a connector are left out", extra={"connector": connection.name, "count": len(left)})
        given = {number: [one.as_json() for one in tools] for number, tools in offers.items()}
        now, here = self.clock.now(), (job.task.id, job.owner, GIVEN)
        await persist(self.writer, lambda connection: store.keep_given(connection, *here, given, now))
        return [(number, offer) for number, tools in offers.items() for offer in tools]


def _with(tools: Sequence[ConnectorTool], resources: Resources) -> Resources:
    return replace(resources, connectors=(*resources.connectors, *tools))
