"""/mcp-connections: the connections that a task may be given as connectors."""

from typing import Any

from aiohttp import web

from loops.connections.mcp import is_enabled, listed_names
from loops.store import connections as store
from loops.store.connections import ConnectionRow
from server.api.call import Call, listed, number_after


async def listing(call: Call) -> web.Response:
    """MCP connections that tasks of this project may name in their input `connectors`, by their ids; `search` finds
    words of a name. Those that are disabled are in /integrations alone."""
    given = call.query("search", page=True)
    page = call.page(given, 1)
    rows = await call.services.reader.read(lambda connection: store.listed(connection, call.project, "mcp"))
    wanted, after = given.get("search", "").lower(), number_after(page) or 0
    found = [row for row in rows if is_enabled(row.config) and wanted in row.name.lower() and row.id > after]
    return listed(found, page.limit, lambda row: (str(row.id),), _item)


def _item(row: ConnectionRow) -> dict[str, Any]:
    """`tools` and `reads` are what its settings allow; null where they do not say."""
    tools, reads = (listed_names(row.config, name) for name in ("tools", "reads"))
    return {
        "id": str(row.id),
        "name": row.name,
        "transport": "command" if "command" in row.config else "http",
        "tools": None if tools is None else sorted(tools),
        "reads": None if reads is None else sorted(reads),
        "created_at": row.created_at.isoformat(),
    }
