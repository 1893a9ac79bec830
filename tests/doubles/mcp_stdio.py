"""An MCP server as a command: `python mcp_stdio.py`. It knows how to die, to write garbage, and what it was given."""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("stdio")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def environment() -> str:
    """The names and values of the environment."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool(annotations=READS)
def place() -> str:
    """The process and its folder."""
    return f"{os.getpid()} {Path.cwd()}"


@server.tool(annotations=READS)
def garbage() -> str:
    """Write what is no message, and answer."""
    sys.stdout.buffer.write(b"\xff\xfe this is no message {\n")
    sys.stdout.flush()
    return "answered all the same"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
