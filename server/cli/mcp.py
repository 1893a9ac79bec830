"""mcp: the tools for an agent that starts its servers itself and speaks with them over their standard streams."""

import argparse
import asyncio

from server.cli.commands import Adder
from server.cli.reach import placed


def add_commands(add: Adder) -> None:
    """mcp."""
    mcp = add.command("mcp", _mcp, "serve the tools for agents over standard input and output", shows=False)
    mcp.add_argument("--read-only", action="store_true", help="hide the tools that change something")


def _mcp(args: argparse.Namespace) -> int:
    with placed(args) as place:
        from server.mcp.stdio import serve_stdio  # a second of loading: what is set wrong is told before

        asyncio.run(serve_stdio(place, read_only=args.read_only))
    return 0
