"""How commands are added to the parser."""

import argparse
from collections.abc import Callable

Run = Callable[[argparse.Namespace], int]
Arguments = Callable[[argparse.ArgumentParser], None]
"""What gives a command its arguments."""


class Adder:
    """Adds commands. Options that many commands take may stand before the command or behind it."""

    def __init__(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, inner: bool = False) -> None:
        """`inner` commands leave what stands before them as it is."""
        self._commands = commands
        self._inner = inner

    def command(
        self, name: str, run: Run, summary: str, *, reaches: bool = True, shows: bool = True
    ) -> argparse.ArgumentParser:
        """A command. `reaches` a service, or works alone; `shows` something that programs may want as JSON."""
        parser = self._add(name, summary)
        parser.set_defaults(execute=run)
        add_places(parser, argparse.SUPPRESS, reaches=reaches)
        if shows:
            default = argparse.SUPPRESS if self._inner else False
            parser.add_argument("--json", action="store_true", default=default, help="print JSON, for programs")
        return parser

    def group(self, name: str, run: Run, summary: str, listing: str, arguments: Arguments | None = None) -> "Adder":
        """A command that has commands of its own. By itself it lists, as its `list` does; what stands before `list`
        holds for that too."""
        outer = self.command(name, run, summary)
        inner = Adder.within(outer)
        parser = inner.command("list", run, listing)
        if arguments is not None:
            arguments(outer)
            arguments(parser)
        for argument in parser._actions:  # noqa: SLF001 - argparse has no public way to its own arguments
            argument.default = argparse.SUPPRESS
        return inner

    @staticmethod
    def within(parser: argparse.ArgumentParser) -> "Adder":
        """Of a command that does something by itself, the commands inside of it."""
        return Adder(parser.add_subparsers(metavar="COMMAND"), inner=True)

    def _add(self, name: str, summary: str) -> argparse.ArgumentParser:
        return self._commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")


def add_places(parser: argparse.ArgumentParser, default: str | None, *, reaches: bool = True) -> None:
    """Where the settings and the service are. With SUPPRESS as default, what stood before the command stays."""
    parser.add_argument("--config", metavar="FILE", default=default, help="settings file (default: ./loops.toml)")
    if reaches:
        parser.add_argument(
            "--url", default=default, help="running service to use, with LOOPS_TOKEN (default: LOOPS_URL)"
        )
        parser.add_argument("--project", default=default, help="project to work in (default: default)")


def add_paging(parser: argparse.ArgumentParser) -> None:
    """Which part of a list is printed."""
    parser.add_argument("--limit", type=_limit, default=50, metavar="N", help="at most N items, 1 to 200 (default: 50)")
    parser.add_argument("--cursor", help="go on where a list ended: its `next`")


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 200):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 200")
    return int(text)
