"""schedules: when workflows are started, what is next, and what became of the past."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loops.errors import Fault, RequestError
from server.cli.commands import Adder, Run, add_paging
from server.cli.output import complain_of, plain, say, show, show_list, table, when
from server.cli.reach import reached
from server.cli.starts import pair
from server.cli.workflows import find_workflow

if TYPE_CHECKING:
    from server.cli.client import Client

_STATUSES = ("active", "paused", "completed")
_CATCH_UPS = ("none", "last", "all")
_FIELDS = ("rrule", "cron", "starts_at", "timezone", "catch_up")
_TURNS = {
    "pause": "let a schedule rest: it fires nothing until it is resumed",
    "resume": "let a schedule go on from now; what lay in the pause is not fired",
}


def add_commands(add: Adder) -> None:
    """schedules, which lists them, and its commands."""
    summary = "list schedules of workflows, the newest first"
    inner = add.group("schedules", _list, summary, summary, _add_listing)
    create = inner.command("create", _create, "give a workflow another schedule")
    create.add_argument("workflow", metavar="WORKFLOW", help="by id or name")
    _add_fields(create)
    update = inner.command("update", _update, "change a schedule; another timing begins from now")
    update.add_argument("schedule", metavar="SCHEDULE", help="its id")
    _add_fields(update)
    for verb, summary in _TURNS.items():
        inner.command(verb, _turning(verb), summary).add_argument("schedule", metavar="SCHEDULE", help="its id")
    inner.command("delete", _delete, "remove a schedule; runs that it started go on").add_argument(
        "schedule", metavar="SCHEDULE", help="its id"
    )
    preview = inner.command("preview", _preview, "show when a schedule runs next, also one that is not stored")
    preview.add_argument("schedule", metavar="SCHEDULE", nargs="?", help="its id")
    preview.add_argument("--workflow", metavar="ID|NAME", help="of a schedule that is not stored: whose it would be")
    preview.add_argument("--count", metavar="N", type=int, default=10, help="how many, 1 to 100 (default: 10)")
    _add_fields(preview)
    past = inner.command("past", _past, "show what became of the occurrences of a schedule, the latest first")
    past.add_argument("schedule", metavar="SCHEDULE", help="its id")
    add_paging(past)


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workflow", metavar="ID|NAME", help="only those of this workflow")
    parser.add_argument("--status", choices=_STATUSES, help="only these")
    add_paging(parser)


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rrule", help="as FREQ=DAILY;INTERVAL=1; it needs --starts-at")
    parser.add_argument("--cron", metavar="LINE", help="in place of it: five fields, as '0 9 * * 1-5'")
    parser.add_argument(
        "--starts-at", dest="starts_at", metavar="WHEN",
        help="first run, as 2026-07-06T09:00:00+02:00; without an offset by the clock of the time zone",
    )  # fmt: skip
    parser.add_argument("--timezone", metavar="ZONE", help="as Europe/Berlin (default: UTC)")
    parser.add_argument("--catch-up", dest="catch_up", choices=_CATCH_UPS, help="runs that were missed (default: last)")
    parser.add_argument(
        "--var", dest="variables", metavar="KEY=VALUE", type=pair, action="append", default=[],
        help="a variable that its runs begin with; may be repeated",
    )  # fmt: skip


def _list(args: argparse.Namespace) -> int:
    with reached(args) as client:
        workflow = None if args.workflow is None else find_workflow(client, args.workflow)["id"]
        listed = client.get("schedules", workflow=workflow, status=args.status, limit=args.limit, cursor=args.cursor)
    columns = ("WORKFLOW", "WHEN", "STATUS", "NEXT", "CATCH UP", "ID")
    show_list(args, listed, columns, _row, "no schedules; loops schedules create WORKFLOW makes one")
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return item["workflow_name"], item["when"], item["status"], _next(item), item["catch_up"], item["id"]


def _next(item: Mapping[str, Any]) -> str:
    if item["next_run_at"] is not None:
        return when(item["next_run_at"])
    if item["fault"]:
        return f"cannot fire: {item['fault']}"
    return f"its workflow is {item['workflow_status']}" if item["status"] == "active" else ""


def _given(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in _FIELDS if getattr(args, name) is not None}
    return {**given, "variables": dict(args.variables)} if args.variables else given


def _create(args: argparse.Namespace) -> int:
    with reached(args) as client:
        workflow = find_workflow(client, args.workflow)["id"]
        made = client.post("workflows", workflow, "schedules", body=_given(args))
    return _tell(args, made)


def _update(args: argparse.Namespace) -> int:
    given = _given(args)
    if not given:
        raise RequestError("say what is to be changed", hint="loops schedules update SCHEDULE --timezone ZONE …")
    with reached(args) as client:
        changed = client.patch(*_path(client, args.schedule), body=given)
    return _tell(args, changed)


def _path(client: "Client", schedule: str) -> tuple[str, ...]:
    return "workflows", client.get("schedules", schedule)["workflow"], "schedules", schedule


def _tell(args: argparse.Namespace, item: Mapping[str, Any]) -> int:
    for warning in item.get("warnings", ()):
        complain_of(Fault(warning["path"], warning["message"], warning["hint"], warning.get("code", "")), "warning")
    upcoming = _next(item)
    told = f"schedule {item['id']} is {item['status']}: {plain(item['when'])}"
    show(args, item, lambda: say(f"{told}; next {plain(upcoming)}" if upcoming else told))
    return 0


def _turning(verb: str) -> Run:
    def turn(args: argparse.Namespace) -> int:
        with reached(args) as client:
            item = client.post(*_path(client, args.schedule), verb)
        return _tell(args, item)

    return turn


def _delete(args: argparse.Namespace) -> int:
    with reached(args) as client:
        client.delete(*_path(client, args.schedule))
    show(args, {"id": args.schedule}, lambda: say(f"schedule {args.schedule} is deleted"))
    return 0


def _preview(args: argparse.Namespace) -> int:
    given = _given(args)
    if (args.schedule is None) == (args.workflow is None) or (args.schedule is not None and given):
        hint = "its id; or for one that is not stored --workflow W with --rrule and --starts-at, or --cron"
        raise RequestError("say which schedule", hint=hint)
    with reached(args) as client:
        if args.schedule is not None:
            told = client.get(*_path(client, args.schedule), "preview", count=args.count)
        else:
            workflow = find_workflow(client, args.workflow)["id"]
            told = client.post("workflows", workflow, "schedules", "preview", body={**given, "count": args.count})
    rows = [(when(one["at"]), one["local"], one["note"]) for one in told["items"]]
    show(args, told, lambda: table(("UTC", "LOCAL", "NOTE"), rows, "it has no further occurrence"))
    return 0


def _past(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get(*_path(client, args.schedule), "occurrences", limit=args.limit, cursor=args.cursor)
    show_list(args, listed, ("DUE", "OUTCOME", "REASON", "RUN"), _past_row, "nothing was due of it yet")
    return 0


def _past_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    return when(one["at"]), one["outcome"], one["reason"], one["run"] or ""
