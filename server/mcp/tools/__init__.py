"""Every tool, in one table: what docs/reference/mcp.md lists, in the order in which agents see it."""

from server.mcp.tool import Tool
from server.mcp.tools import connections, deliveries, results, runs, workflows

TOOLS: tuple[Tool, ...] = (
    *workflows.TOOLS,
    *connections.TOOLS,
    *runs.TOOLS,
    *deliveries.TOOLS,
    *results.TOOLS,
)
