"""What is asked of an MCP server: whether it is reached, and which tools tasks would be offered."""

from collections.abc import Mapping, Sequence

from loops.agent.tools.connector import Offered, offered, prefix_of
from loops.connections.book import OpenConnection
from loops.connections.mcp import McpSession, is_enabled, listed_names, server_of
from loops.errors import ConfigError, ExternalError
from loops.tasks.connectors import allowed_by, described
from server.checks.check import Check

_MOST_NAMED = 20


async def mcp_checks(one: OpenConnection, commands: Mapping[str, Sequence[str]]) -> list[Check]:
    """The checks of one connection, which take some seconds; nothing is called."""
    name = f"mcp {one.name}"
    if not is_enabled(one.config):
        mend = f"loops integrations update {one.id} --set enabled=yes"
        return [Check(name, "warning", "it is disabled: no task may have it", mend)]
    try:
        session = McpSession(server_of(one, commands))
        await session.open()
        try:
            listed = [described(tool) for tool in await session.tools()]
        finally:
            await session.close()
    except ConfigError as error:
        return [Check(name, "failed", error.faults[0].message, error.faults[0].hint)]
    except ExternalError as error:
        mend = "see that the url and token, or the command, are right, and that the server runs"
        return [Check(name, "failed", error.message, mend)]
    prefix = prefix_of(one.name, frozenset(), str(one.id))
    reading, _ = offered(one.name, prefix, listed, allowed_by(one.config, read_only=True))
    whole, left = offered(one.name, prefix, listed, allowed_by(one.config, read_only=False))
    checks = [
        Check(f"{name}, server", "ok", f"it is reached and lists {len(listed)} tools"),
        _tools(name, reading, whole),
    ]
    absent = _absent(one, {tool.name for tool in listed})
    if absent:
        told = f"its settings name tools that the server does not list: {', '.join(absent)}"
        checks.append(Check(f"{name}, settings", "warning", told, "see tools and reads"))
    if left:
        told = "; ".join(f"{theirs}: {reason}" for theirs, reason in list(left.items())[:_MOST_NAMED])
        checks.append(Check(f"{name}, left out", "ok", told))
    return checks


def _tools(name: str, reading: Sequence[Offered], whole: Sequence[Offered]) -> Check:
    readers = {tool.name for tool in reading}
    writers = [tool.name for tool in whole if tool.name not in readers]
    told = f"a task that only reads is offered {_named(sorted(readers))}; with full scope also {_named(writers)}"
    if not readers:
        mend = "name in reads those of its tools that change nothing; the server does not say so of any"
        return Check(f"{name}, tools", "warning", told, mend)
    return Check(f"{name}, tools", "ok", told)


def _named(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _absent(one: OpenConnection, there: set[str]) -> list[str]:
    wanted = (listed_names(one.config, "tools") or frozenset()) | (listed_names(one.config, "reads") or frozenset())
    return sorted(wanted - there)
