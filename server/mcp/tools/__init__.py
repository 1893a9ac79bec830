"""Every tool, in one table: what docs/reference/mcp.md lists, in the order in which agents see it."""

from server.mcp.tool import Tool
from server.mcp.tools import connections, deliveries, results, runs, schedules, workflows

TOOLS: tuple[Tool, ...] = (
    *workflows.TOOLS,
    *schedules.TOOLS,
    *connections.TOOLS,
    *runs.TOOLS,
    *deliveries.TOOLS,
    *results.TOOLS,
)
