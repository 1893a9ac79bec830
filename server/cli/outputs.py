"""output-settle, output-send, output-patch: what people say of outputs of tasks that wait for them."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from server.cli.commands import Adder
from server.cli.output import say, show
from server.cli.reach import reached
from server.rounds import output_lines


def add_commands(add: Adder) -> None:
    """output-settle, output-send, output-patch."""
    happened = add.command("output-settle", _settle, "say that an uncertain output of a task was written, and where")
    _add_place(happened)
    happened.add_argument("address", metavar="ADDRESS", help="where it was written, as https://github.com/…")
    again = add.command("output-send", _send, "have an output of a task sent that is refused, uncertain or staged")
    _add_place(again)
    patch = add.command("output-patch", _patch, "write the patch of an output to standard output, for git apply")
    _add_place(patch)


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("task", metavar="TASK", help="the id of the task")
    command.add_argument("number", metavar="NUMBER", help="which output of it, as run-show counts them")


def _settle(args: argparse.Namespace) -> int:
    with reached(args) as client:
        item = client.post("tasks", args.task, "outputs", args.number, "settle", body={"url": args.address})
    show(args, item, lambda: _tell(item))
    return 0


def _send(args: argparse.Namespace) -> int:
    with reached(args) as client:
        item = client.post("tasks", args.task, "outputs", args.number, "send")
    show(args, item, lambda: _tell(item))
    return 0


def _patch(args: argparse.Namespace) -> int:
    with reached(args) as client:
        content = client.raw("tasks", args.task, "outputs", args.number, "patch")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    return 0


def _tell(item: Mapping[str, Any]) -> None:
    for line in output_lines(item, patch=False):
        say(line)
