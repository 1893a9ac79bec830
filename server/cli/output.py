"""What commands print: tables for people, JSON for programs, errors on standard error.

Text that came from outside is printed with its control characters escaped, so that it cannot act on a terminal.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from loops.brief import one_line
from loops.errors import ConfigError, DefinitionError, Fault, LoopsError
from server.terminal import plain, when

__all__ = ["complain", "complain_of", "plain", "say", "show", "show_list", "table", "tell_checks", "took", "when"]

_NARROWEST = 60
_PARAMETER = re.compile(r"\b(force|running)=(\w+)", re.ASCII)


def show(args: argparse.Namespace, value: object, people: Callable[[], None]) -> None:
    """Print JSON where --json asks for it, else what is for people."""
    if args.json:
        print(json.dumps(value, indent=None if not sys.stdout.isatty() else 2))
    else:
        people()


def show_list(
    args: argparse.Namespace,
    listed: Mapping[str, Any],
    columns: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[object]],
    none: str,
) -> None:
    """Print a list of the API; `none` where there is nothing."""

    def people() -> None:
        items = listed["items"]
        table(columns, [row(item) for item in items], none)
        if listed["next"]:
            say(f"\nmore: --cursor {listed['next']}")

    show(args, listed, people)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], none: str) -> None:
    """Print aligned columns; on a terminal a line is cut at its width."""
    if not rows:
        print(none)
        return
    cells = [list(columns), *(["" if value is None else plain(one_line(str(value))) for value in row] for row in rows)]
    widths = [max(len(line[number]) for line in cells) for number in range(len(columns))]
    most = max(shutil.get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else None
    for line in cells:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        print(text if most is None or len(text) <= most else text[: most - 1] + "…")


def say(text: str = "") -> None:
    """A line for people."""
    print(text)


def tell_checks(checks: Sequence[Mapping[str, str]]) -> None:
    """A line for each thing that was looked at, and what mends it."""
    for check in checks:
        say(f"{check['state']:<8} {check['name']}: {plain(check['message'])}")
        if check["hint"]:
            say(f"         {plain(check['hint'])}")


def took(begun: str | None, ended: str | None) -> str:
    """The time between two instants."""
    if begun is None or ended is None:
        return ""
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def complain(error: LoopsError) -> None:
    """Print an error, each of its faults on a line of its own."""
    if isinstance(error, ConfigError | DefinitionError):
        for fault in error.faults:
            complain_of(fault)
        return
    for line in error.message.splitlines() or [""]:
        print(f"error: {plain(line)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {plain(_as_options(error.hint))}", file=sys.stderr)


def _as_options(hint: str) -> str:
    """A hint of the API in the words of the command line: `running=drain` is `--running drain` there."""
    return _PARAMETER.sub(lambda found: "--force" if found[1] == "force" else f"--{found[1]} {found[2]}", hint)


def complain_of(fault: Fault, word: str = "error") -> None:
    """Print one fault or warning."""
    place = f"{plain(fault.path)}: " if fault.path else ""
    code = f" [{fault.code}]" if fault.code else ""
    print(f"{word}: {place}{plain(fault.message)}{code}", file=sys.stderr)
    if fault.hint:
        print(f"hint: {plain(fault.hint)}", file=sys.stderr)
