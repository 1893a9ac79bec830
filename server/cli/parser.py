"""The parser: which commands there are and what they take."""

import argparse
import sys
from typing import NoReturn

from config.closest import closest
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


class Parser(argparse.ArgumentParser):
    """Says which known word may have been meant by one that is not known, before it lists them all."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        near = None
        if action.choices is not None and value not in action.choices:
            near = closest(str(value), map(str, action.choices))
        if near is not None:
            raise argparse.ArgumentError(action, f"there is no {str(value)!r}: did you mean {near}?")
        super()._check_value(action, value)


def _parser(prog: str, description: str) -> argparse.ArgumentParser:
    return Parser(prog=prog, description=description)


def build_parser() -> argparse.ArgumentParser:
    """The parser of `loops`; what it gives has `execute`, the command's function."""
    parser = _parser(
        prog="loops", description="Something happens, a loop runs, its result comes back, and everything is explained."
    )
    add_places(parser, None)
    parser.add_argument("--version", action=_Version, nargs=0, help="print which release this is, and leave")
    parser.set_defaults(execute=lambda _args: _help(parser))
    add = Adder(parser.add_subparsers(metavar="COMMAND"))
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


def _help(parser: argparse.ArgumentParser) -> int:
    """`loops` by itself."""
    parser.print_help()
    return 0


class _Version(argparse.Action):
    """Looks the release up only where it is asked for: help comes at once."""

    def __call__(self, parser: argparse.ArgumentParser, *_given: object) -> NoReturn:
        from server.release import release

        sys.stdout.write(f"loops {release() or 'from a source tree'}\n")
        parser.exit()
