"""integrations channels, integrations check: what the services behind connections say."""

import argparse
from collections.abc import Mapping
from typing import Any

from server.cli.commands import Adder
from server.cli.output import plain, say, show, table, tell_checks
from server.cli.reach import reached


def add_commands(integrations: Adder) -> None:
    """channels, check: below `integrations`."""
    channels = integrations.command("channels", _channels, "list the channels of a Slack connection")
    channels.add_argument("integration", metavar="ID")
    channels.add_argument("--search", metavar="TEXT", help="only those with this in their name, or with this id")
    channels.add_argument("--limit", default=50, type=int, metavar="N", help="at most N, 1 to 200 (default: 50)")
    channels.add_argument("--offset", default=0, type=int, metavar="N", help="pass over the first N (default: 0)")
    check = integrations.command("check", _check, "ask the service behind a connection what works; sends nothing")
    check.add_argument("integration", metavar="ID")


def _channels(args: argparse.Namespace) -> int:
    asked = {"search": args.search, "limit": args.limit, "offset": args.offset}
    with reached(args) as client:
        listed = client.get("integrations", args.integration, "channels", **asked)

    def people() -> None:
        rows = [_row(item) for item in listed["items"]]
        table(("CHANNEL", "APP IS IN IT", "PRIVATE", "ID"), rows, "no channels that the app sees")
        if listed["next"] is not None:
            say(f"\nmore: --offset {listed['next']}")

    show(args, listed, people)
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    member = "yes" if item["is_member"] else "no, may post" if item["takes_posts"] else "no: invite it"
    return f"#{plain(item['name'])}", member, "yes" if item["is_private"] else "", item["id"]


def _check(args: argparse.Namespace) -> int:
    with reached(args) as client:
        found = client.get("integrations", args.integration, "check")
    show(args, found, lambda: tell_checks(found["checks"]))
    return 0 if found["healthy"] else 1
