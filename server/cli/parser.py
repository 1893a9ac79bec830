"""The parser: which commands there are and what they take."""

import argparse

from server.cli import (
    access,
    deliveries,
    forecast,
    mcp,
    messages,
    quotas,
    runs,
    schedules,
    serving,
    skills,
    spaces,
    starts,
    testing,
    upkeep,
    workflows,
)
from server.cli.commands import Adder, add_places


def build_parser() -> argparse.ArgumentParser:
    """The parser of `loops`; what it gives has `execute`, the command's function."""
    parser = argparse.ArgumentParser(
        prog="loops", description="Something happens, a loop runs, its result comes back, and everything is explained."
    )
    add_places(parser, None)
    add = Adder(parser.add_subparsers(metavar="COMMAND", required=True))
    for group in (
        serving,
        workflows,
        schedules,
        testing,
        forecast,
        starts,
        runs,
        deliveries,
        messages,
        spaces,
        quotas,
        skills,
        access,
        mcp,
        upkeep,
    ):
        group.add_commands(add)
    return parser
