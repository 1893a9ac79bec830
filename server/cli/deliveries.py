"""deliveries, explain: what arrived, and why it did or did not start a loop."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from server.cli.commands import Adder, add_paging
from server.cli.found import delivery_id
from server.cli.output import plain, say, show, show_list, when
from server.cli.reach import reached
from server.cli.workflows import find_workflow

_STATUSES = ("accepted", "dispatched", "ignored", "quarantined")
_MOST_NAMED = 5


def add_commands(add: Adder) -> None:
    """deliveries, explain."""
    deliveries = add.command("deliveries", _deliveries, "list deliveries, the newest first")
    deliveries.add_argument("--status", choices=_STATUSES, help="only these")
    add_paging(deliveries)
    explain = add.command("explain", _explain, "say why a delivery did or did not start each loop")
    explain.add_argument(
        "delivery", metavar="DELIVERY", help="our id of it or the sender's, also as github:ID, or how either begins"
    )
    explain.add_argument("loop", metavar="LOOP", nargs="?", help="only this loop, by id or name, enabled or not")


def _deliveries(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("deliveries", status=args.status, limit=args.limit, cursor=args.cursor)
    columns = ("RECEIVED", "SOURCE", "EVENT", "STATUS", "RUNS", "REASON", "ID")
    show_list(args, listed, columns, _row, "no deliveries")
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        when(item["received_at"]),
        item["source"],
        item["what"],
        item["status"],
        item["runs"],
        item["reason"],
        item["id"],
    )


def _explain(args: argparse.Namespace) -> int:
    with reached(args) as client:
        workflow = None if args.loop is None else find_workflow(client, args.loop)["id"]
        told = client.get("deliveries", delivery_id(client, args.delivery), "verdicts", workflow=workflow)
    show(args, told, lambda: tell_explanation(told, fold=args.loop is None))
    return 0


def tell_explanation(told: Mapping[str, Any], *, fold: bool) -> None:
    """Print it, event by event where there are several; with `fold`, loops that listen to something else in a line."""
    delivery = told["delivery"]
    reason = f" ({plain(delivery['reason'])})" if delivery["reason"] else ""
    say(f"delivery  {delivery['id']}  (the sender's: {plain(delivery['key'])})")
    say(f"what      {plain(delivery['what'])} from {delivery['source']}, received {when(delivery['received_at'])}")
    runs = f"{delivery['runs']} run{'' if delivery['runs'] == 1 else 's'}"
    say(f"status    {delivery['status']}{reason}, {runs} started")
    if told["note"]:
        say(f"note      {plain(told['note'])}")
    if not told["verdicts"]:
        say("\nno verdicts")
    events: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for verdict in told["verdicts"]:
        events.setdefault((verdict["event"], verdict["event_uuid"]), []).append(verdict)
    several = sum(1 for name, _ in events if name) > 1
    for (name, uuid), verdicts in events.items():
        if several:
            say(f"\n== {_event_words(name, uuid, verdicts[0]['distinct_id'])}")
        _tell_verdicts(verdicts, fold=fold)


def _event_words(name: str, uuid: str, distinct_id: str) -> str:
    if not name:
        return "the whole delivery"
    return f"{plain(name)}{f' ({plain(distinct_id)})' if distinct_id else ''}  {plain(uuid)}"


def _tell_verdicts(verdicts: Sequence[Mapping[str, Any]], *, fold: bool) -> None:
    """Those on one event. With `fold`, loops that listen to something else are named in a line together."""
    folded = [one for one in verdicts if fold and one["recomputed"] and one["stage"] == "trigger"]
    for verdict in verdicts:
        if verdict not in folded:
            _tell_verdict(verdict)
    if not folded:
        return
    names = ", ".join(plain(one["workflow_name"]) or one["workflow"] for one in folded[:_MOST_NAMED])
    more = f" and {len(folded) - _MOST_NAMED} more" if len(folded) > _MOST_NAMED else ""
    count, is_one = len(folded), len(folded) == 1
    who = ("other" if is_one else "others") if count < len(verdicts) else ("loop" if is_one else "loops")
    say(f"\n{count} {who} listen{'s' if is_one else ''} to something else: {names}{more}")


def _tell_verdict(verdict: Mapping[str, Any]) -> None:
    outcome = "passed" if verdict["passed"] else "stopped"
    where = "not started" if verdict["stage"] == "not_started" else f"{outcome} at {verdict['stage']}"
    worked_out = ", worked out again now" if verdict["recomputed"] else ""
    say(f"\n{plain(verdict['workflow_name']) or verdict['workflow']}, version {verdict['version']}{worked_out}")
    say(f"  {where}: {plain(verdict['reason'])}")
    if verdict["run"]:
        say(f"  started run {verdict['run']}")
    for one in verdict["compared"]:
        mark = "ok " if one["passed"] else "NO "
        expected, actual = (plain(json.dumps(one[key], ensure_ascii=False)) for key in ("expected", "actual"))
        wanted = "" if one["expected"] is None else f" {expected}"
        found = f"filter error: {plain(one['error'])}" if one.get("error") else f"it is {actual}"
        note = f" ({plain(one['note'])})" if one.get("note") else ""
        say(f"    {mark} {plain(one['key'])} {one['operator']}{wanted}; {found}{note}")
