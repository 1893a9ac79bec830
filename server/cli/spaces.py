"""spaces: where the runs of loops are listed together."""

import argparse
from collections.abc import Mapping
from typing import Any

from server.cli.commands import Adder
from server.cli.output import show_list
from server.cli.reach import reached


def add_commands(add: Adder) -> None:
    """spaces."""
    add.command(
        "spaces", _spaces, "list spaces, and the loops that list their runs there; loops runs --space shows one"
    )


def _spaces(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("spaces")
    none = "no spaces; a task names one in its input channel"
    show_list(args, listed, ("SPACE", "LOOPS", "ID"), _row, none)
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return item["name"], ", ".join(one["name"] or one["id"] for one in item["workflows"]), item["id"]
