"""runs, run-show, cancel, resume."""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loops.errors import Conflict
from server.cli.commands import Adder, add_paging
from server.cli.found import run_id
from server.cli.output import say, show, show_list, took, when
from server.cli.reach import reached
from server.cli.run_show import tell_run
from server.cli.workflows import find_workflow

if TYPE_CHECKING:
    from server.cli.client import Client

_STATUSES = ("queued", "running", "waiting", "completed", "failed", "cancelled")


def add_commands(add: Adder) -> None:
    """runs, run-show, cancel, resume."""
    runs = add.command("runs", _runs, "list runs, the newest first")
    runs.add_argument("--status", choices=_STATUSES, help="only these")
    runs.add_argument("--workflow", metavar="ID|NAME", help="only runs of this workflow")
    runs.add_argument("--delivery", metavar="ID", help="only runs that this delivery started")
    runs.add_argument("--space", metavar="ID", help="only runs that are listed in this space")
    add_paging(runs)
    one = add.command("run-show", _show, "show one run: its steps, the rounds of its AI tasks, its messages")
    one.add_argument("run", metavar="ID", help="its id, or 6 characters and more that it begins with")
    one.add_argument("--patch", action="store_true", help="print the patches of what its tasks asked to have written")
    add.command("cancel", _cancel, "cancel a run").add_argument("run", metavar="ID", help="as in run-show")
    resume = add.command("resume", _resume, "wake a waiting run now")
    resume.add_argument("run", metavar="ID", help="as in run-show")
    resume.add_argument("--payload", metavar="JSON", type=_payload, default={}, help="an object that it wakes with")


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise argparse.ArgumentTypeError('not an object, as {"answer": "yes"}')
    return payload


def _runs(args: argparse.Namespace) -> int:
    with reached(args) as client:
        workflow = None if args.workflow is None else find_workflow(client, args.workflow)["id"]
        listed = client.get(
            "runs",
            status=args.status,
            workflow=workflow,
            delivery=args.delivery,
            space=args.space,
            limit=args.limit,
            cursor=args.cursor,
        )
    columns = ("STARTED", "WORKFLOW", "EVENT", "STATUS", "TOOK", "REASON", "ID")
    show_list(args, listed, columns, _row, "no runs")
    return 0


def _row(run: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        when(run["started_at"] or run["created_at"]),
        run["workflow_name"],
        run["what"],
        run["status"],
        took(run["started_at"], run["finished_at"]),
        run["reason"],
        run["id"],
    )


def _show(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.get("runs", run_id(client, args.run))
        tasks = [_whole_task(client, task) for task in run["tasks"]]
        whole = {**run, "tasks": tasks, "messages": _messages(client, run["id"])}
    show(args, whole, lambda: tell_run(whole, patches=args.patch))
    return 0


def _whole_task(client: "Client", task: Mapping[str, Any]) -> dict[str, Any]:
    """A task with its rounds, and with what it asked to have written."""
    trace = client.get("tasks", task["id"], "trace")
    outputs = client.get("tasks", task["id"])["outputs"]
    return {
        **task,
        "trace": {name: value for name, value in trace.items() if name != "task"},
        "outputs": outputs,
    }


def _messages(client: "Client", run: str) -> list[dict[str, Any]]:
    """The messages of a run, in the order in which they were stored."""
    found: list[dict[str, Any]] = client.get("notifications", run=run, limit=200)["items"]
    return found[::-1]


def _cancel(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.post("runs", run_id(client, args.run), "cancel")
    if run["acts"]:
        raise Conflict(
            f"run {run['id']} was asked to stop and is still at work", hint="look again with: loops run-show"
        )
    more = "" if run["status"] == "cancelled" else "; what its task did in a Slack thread is cancelled"
    show(args, run, lambda: say(f"run {run['id']} is {run['status']}{more}"))
    return 0


def _resume(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.post("runs", run_id(client, args.run), "resume", body={"payload": args.payload})
    show(args, run, lambda: say(f"run {run['id']} is {run['status']}"))
    return 0
