"""`python -m server.cli.reference` prints docs/reference/cli.md, from the parser itself."""

import argparse
import sys
from collections.abc import Iterator

from server.cli.parser import build_parser

_HEAD = (
    "# Command line",
    "",
    "<!-- Printed by `python -m server.cli.reference`; a test compares the two. -->",
    "",
    "`loops`, or `python -m server`. A command prints a table for people; with `--json` it prints one JSON value for",
    "programs. The exit code is 0 when it is done, 1 when it failed, 2 when it was used wrongly; errors go to standard",
    "error as `error: …` and `hint: …`.",
    "",
    "A command speaks to the service that `--url` or `LOOPS_URL` names, with the token in `LOOPS_TOKEN`; without them,",
    "to the service that runs on the data folder, as its admin; and where none runs, it opens the database itself.",
    "Where there is no database either it fails: only `serve` and `migrate` make one. `loops --version` tells the",
    "release.",
    "",
)
_EVERYWHERE = ("config", "url", "project", "json", "help")


def cli_reference() -> str:
    """docs/reference/cli.md."""
    parser = build_parser()
    places = [action for action in parser._actions if action.dest in _EVERYWHERE and action.dest != "help"]  # noqa: SLF001 - argparse has no public way to its own arguments
    lines = [*_HEAD, "Options of every command that can use them, before it or behind it:", ""]
    lines += [*map(_argument, places), "- `--json`: print JSON, for programs", ""]
    for name, summary, command in _commands(parser, "loops"):
        lines += [f"## {name}", "", f"{summary[0].upper()}{summary[1:]}.", ""]
        inner = (*_EVERYWHERE, argparse.SUPPRESS)  # the last stands for commands inside of this one
        own = [action for action in command._actions if action.dest not in inner]  # noqa: SLF001
        lines += [*map(_argument, own), ""] if own else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _commands(parser: argparse.ArgumentParser, prefix: str) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Every command that can be run, with its whole name and its summary."""
    for action in parser._actions:  # noqa: SLF001
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        for choice in action._choices_actions:  # noqa: SLF001
            name, command = f"{prefix} {choice.dest}", action.choices[choice.dest]
            if command.get_default("execute") is not None:
                yield name, choice.help or "", command
            yield from _commands(command, name)


def _argument(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    words = metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not action.option_strings:
        shown = f"[{words}]" if action.nargs == "?" else f"{words} …" if action.nargs == "+" else words
    else:
        shown = ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {words}")
    needed = " (required)" if action.option_strings and action.required else ""
    return f"- `{shown}`{needed}" + (f": {action.help}" if action.help else "")


if __name__ == "__main__":
    sys.stdout.write(cli_reference())
