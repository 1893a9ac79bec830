"""outbox, alerts: what loops sent or could not send, sending it again, and where failures are told."""

import argparse
from collections.abc import Mapping
from typing import Any

from server.cli.commands import Adder, add_paging
from server.cli.output import plain, say, show, show_list, table, when
from server.cli.reach import reached

_STATUSES = ("pending", "sending", "sent", "refused", "retry", "uncertain", "shown", "withdrawn")
_TO = ("slack", "email", "page", "loops")


def add_commands(add: Adder) -> None:
    """outbox, alerts."""
    summary = "list the messages of loops, and send one again"
    outbox = add.group("outbox", _list, summary, "list messages, the newest first", _add_listing)
    outbox.command("show", _show, "show a message and what became of it").add_argument("message", metavar="ID")
    again = outbox.command("resend", _resend, "send a message again that is refused, uncertain or only shown")
    again.add_argument("message", metavar="ID")
    again.add_argument("--over", metavar="CONNECTION", help="leave over this connection, by its id")
    summary = "see which loops fail, and say where failures are told"
    alerts = add.group("alerts", _failing, summary, "list the loops whose last run failed, and where failures are told")
    to = alerts.command("to", _to, "say where the failures of all loops are told")
    to.add_argument("kind", choices=_TO, help="page: the page alone; loops: to whom each loop tells its result")
    to.add_argument("to", nargs="?", metavar="TO", help="a channel's id, or an address")
    to.add_argument("--over", metavar="CONNECTION", help="the connection that it leaves over, by its id")


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=_STATUSES, help="only these")
    parser.add_argument("--run", metavar="ID", help="only messages of this run")
    add_paging(parser)


def _list(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("notifications", status=args.status, run=args.run, limit=args.limit, cursor=args.cursor)
    show_list(args, listed, ("STORED", "KIND", "TO", "STATUS", "REASON", "ID"), _row, "no messages")
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return when(item["created_at"]), item["kind"], item["to"] or "", item["status"], item["reason"], item["id"]


def _show(args: argparse.Namespace) -> int:
    with reached(args) as client:
        item = client.get("notifications", args.message)

    def people() -> None:
        _tell(item)
        message = item["message"]
        if message is None:
            say("\nwhat it says is no longer kept")
        else:
            for part in (message["subject"], message["text"] or message["html"]):
                if part:
                    say("\n" + "\n".join(plain(line) for line in part.splitlines()))

    show(args, item, people)
    return 0


def _tell(item: Mapping[str, Any]) -> None:
    to = f" to {plain(item['to'])}" if item["to"] else ""
    say(f"{item['kind']}{to}: {item['status']}" + (f", {plain(item['reason'])}" if item["reason"] else ""))
    for line in item["missed"]:
        say(f"not delivered to {plain(line)}")
    if item["mend"]:
        say(f"hint: {plain(item['mend'])}")


def _resend(args: argparse.Namespace) -> int:
    body = {} if args.over is None else {"connection": args.over}
    with reached(args) as client:
        item = client.post("notifications", args.message, "resend", body=body)
    show(args, item, lambda: _tell(item))
    return 0


def _failing(args: argparse.Namespace) -> int:
    with reached(args) as client:
        told = client.get("alerts")

    def people() -> None:
        rows = [
            (one["workflow_name"], one["failures"], when(one["failed_at"]), when(one["told_at"]), one["reason"])
            for one in told["failing"]
        ]
        table(("WORKFLOW", "FAILED", "LAST", "TOLD", "REASON"), rows, "no loop fails")
        say(f"\n{_target_words(told['target'])}")

    show(args, told, people)
    return 0


def _to(args: argparse.Namespace) -> int:
    target: dict[str, Any] | None = {"kind": args.kind, "connection": args.over, "to": args.to}
    if args.kind in {"page", "loops"}:
        target = {"kind": "page"} if args.kind == "page" else None
    with reached(args) as client:
        told = client.put("alerts", body={"target": target})
    show(args, told, lambda: say(_target_words(told["target"])))
    return 0


def _target_words(target: Mapping[str, Any] | None) -> str:
    if target is None:
        return "each loop tells its failures to whom it tells its result, else on the page /outbox"
    if target["kind"] == "page":
        return "failures are told on the page /outbox alone"
    return f"failures are told to {plain(target['to'])}, over connection {target['connection']}"
