"""The parser: which commands there are and what they take."""

import argparse
import sys
from typing import NoReturn

from server.cli import (
    access,
    deliveries,
    forecast,
    mcp,
    messages,
    outputs,
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
    parser.add_argument("--version", action=_Version, nargs=0, help="print which release this is, and leave")
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
        outputs,
        spaces,
        quotas,
        skills,
        access,
        mcp,
        upkeep,
    ):
        group.add_commands(add)
    return parser


class _Version(argparse.Action):
    """Looks the release up only where it is asked for: help comes at once."""

    def __call__(self, parser: argparse.ArgumentParser, *_given: object) -> NoReturn:
        from server.release import release

        sys.stdout.write(f"loops {release() or 'from a source tree'}\n")
        parser.exit()
