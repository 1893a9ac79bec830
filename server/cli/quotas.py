"""quotas: how many AI tasks may still be created and what they may still spend, and what a project sets for itself."""

import argparse
from collections.abc import Mapping
from typing import Any

from loops.errors import RequestError
from loops.event import JsonValue
from server.cli.commands import Adder
from server.cli.output import plain, say, show, table, when
from server.cli.reach import reached


def add_commands(add: Adder) -> None:
    """quotas, quotas set."""
    listing = add.command("quotas", _quotas, "show what AI tasks used of their quotas in the last 24 hours")
    setting = Adder.within(listing).command("set", _set, "set quotas of the project's own")
    setting.add_argument(
        "quotas",
        nargs="+",
        metavar="NAME=NUMBER",
        help="workflow_tasks, project_tasks, or task_, workflow_ or project_ with tokens or cost; without a number the "
        "installation's holds again",
    )


def _quotas(args: argparse.Namespace) -> int:
    with reached(args) as client:
        told = client.get("quotas")
    show(args, told, lambda: _tell(told))
    return 0


def _tell(told: Mapping[str, Any]) -> None:
    rows = [_row("the project", told["project"])]
    rows += [_row(one["workflow_name"] or one["workflow"], one) for one in told["workflows"]]
    table(("OF", "TASKS", "UNDER WAY", "TOKENS", "COST", "NEXT SLOT"), rows, "")
    if told["own"]:
        own = ", ".join(f"{name}={value}" for name, value in told["own"].items())
        say(f"\nof the project's own: {plain(own)}")


def _row(name: str, use: Mapping[str, Any]) -> tuple[object, ...]:
    spent = use["spent"]
    tokens = f"{spent['tokens']}" + ("" if spent["token_limit"] is None else f" of {spent['token_limit']}")
    unknown = " + unknown" if spent["unpriced"] else ""
    cost = f"${spent['cost']:.4f}{unknown}" + ("" if spent["cost_limit"] is None else f" of ${spent['cost_limit']:g}")
    slot = "now" if use["free"] else when(use["frees_at"]) or "none"
    return name, f"{use['used']} of {use['limit']}", use["running"], tokens, cost, slot


def _set(args: argparse.Namespace) -> int:
    from loops.tasks.allowance import checked_overrides

    given = dict(_given(one) for one in args.quotas)
    checked_overrides(given)  # before anything is asked of the service
    with reached(args) as client:
        before = client.get("quotas")["own"]
        stored = client.put("quotas", body={"quotas": {**before, **given}})
    own = ", ".join(f"{name}={value}" for name, value in stored["own"].items()) or "none: the installation's hold"
    show(args, stored, lambda: say(f"quotas of the project's own: {plain(own)}"))
    return 0


def _given(text: str) -> tuple[str, JsonValue]:
    """A name and its number; None for the installation's again. Raises RequestError."""
    name, is_given, value = text.partition("=")
    if not is_given:
        raise RequestError(f"{text!r} has no number", hint="write NAME=NUMBER, as project_tasks=200", path="quotas")
    if not value:
        return name, None
    return name, int(value) if value.isascii() and value.isdigit() else value
