"""runs, run-show, cancel, resume."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from loops.errors import Conflict
from server.cli.commands import Adder, add_paging
from server.cli.output import plain, say, show, show_list, table, took, when
from server.cli.reach import reached
from server.cli.workflows import find_workflow

_LONGEST_TITLE = 60
_STATUSES = ("queued", "running", "waiting", "completed", "failed", "cancelled")


def add_commands(add: Adder) -> None:
    """runs, run-show, cancel, resume."""
    runs = add.command("runs", _runs, "list runs, the newest first")
    runs.add_argument("--status", choices=_STATUSES, help="only these")
    runs.add_argument("--workflow", metavar="ID|NAME", help="only runs of this workflow")
    runs.add_argument("--delivery", metavar="ID", help="only runs that this delivery started")
    add_paging(runs)
    add.command("run-show", _show, "show one run, its steps and its AI tasks").add_argument("run", metavar="ID")
    add.command("cancel", _cancel, "cancel a run").add_argument("run", metavar="ID")
    resume = add.command("resume", _resume, "wake a waiting run now")
    resume.add_argument("run", metavar="ID")
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
        run["event"],
        run["status"],
        took(run["started_at"], run["finished_at"]),
        run["reason"],
        run["id"],
    )


def _show(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.get("runs", args.run)
    show(args, run, lambda: _tell(run))
    return 0


def _tell(run: Mapping[str, Any]) -> None:
    waits = f", waits for {run['waiting_for']} until {when(run['waiting_until'])}" if run["waiting_for"] else ""
    reason = f" ({plain(run['reason'])})" if run["reason"] else ""
    say(f"run       {run['id']}")
    say(f"workflow  {plain(run['workflow_name'])}, version {run['version']} ({run['workflow']})")
    delivery = f", delivery {run['delivery']}" if run["delivery"] else ""
    finished = f", finished {when(run['finished_at'])}" if run["finished_at"] else ""
    replay = f", replay {run['replay']}" if run["replay"] else ""
    say(f"event     {plain(run['event'])} from {run['source']}{delivery}{replay}")
    say(f"status    {run['status']}{reason}{waits}")
    say(f"started   {when(run['started_at'])}{finished}")
    say(f"cost      {_run_cost(run)}")
    say()
    rows = [
        (step["name"] or step["id"], step["type"], step["status"], took(step["started_at"], step["finished_at"]))
        for step in run["steps"]
    ]
    table(("STEP", "TYPE", "STATUS", "TOOK"), rows, "no steps yet")
    for step in run["steps"]:
        _tell_step(step)
    if run["tasks"]:
        say()
        columns = ("TASK", "STATUS", "MODEL", "ROUNDS", "TOKENS IN", "TOKENS OUT", "COST", "ID")
        table(columns, [_task_row(task) for task in run["tasks"]], "")
    for task in run["tasks"]:
        if task["reason"]:
            say(f"\n{plain(task['title'])}\n  {plain(task['ending'])}: {plain(task['reason'])}")


def _run_cost(run: Mapping[str, Any]) -> str:
    """What the run cost; of one whose tasks are all known, also what those that are not over have spent."""
    costs = [task["cost"] for task in run["tasks"] if task["rounds"]]
    known = [cost for cost in costs if cost is not None]
    unknown = " and an unknown part: a model has no price" if len(known) < len(costs) else ""
    return f"${sum(known) if costs else run['cost']:.4f}{unknown}"


def _task_row(task: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        task["title"] if len(task["title"]) <= _LONGEST_TITLE else task["title"][: _LONGEST_TITLE - 1] + "…",
        task["status"],
        "scripted" if task["model"].partition(":")[0] == "scripted" else task["model"],
        task["rounds"],
        task["input_tokens"],
        task["output_tokens"],
        "unknown" if task["cost"] is None and task["rounds"] else f"${task['cost'] or 0:.4f}",
        task["id"],
    )


def _tell_step(step: Mapping[str, Any]) -> None:
    lines = [plain(line["text"]) for line in step["log"]]
    if step["error"]:
        lines.append("error: " + plain(step["error"].get("message", "")))
    if lines:
        say(f"\n{plain(step['name'] or step['id'])}")
        for line in lines:
            say(f"  {line}")


def _cancel(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.post("runs", args.run, "cancel")
    if run["status"] == "running":
        raise Conflict(
            f"run {run['id']} was asked to stop and is still at work", hint="look again with: loops run-show"
        )
    show(args, run, lambda: say(f"run {run['id']} is {run['status']}"))
    return 0


def _resume(args: argparse.Namespace) -> int:
    with reached(args) as client:
        run = client.post("runs", args.run, "resume", body={"payload": args.payload})
    show(args, run, lambda: say(f"run {run['id']} is {run['status']}"))
    return 0
