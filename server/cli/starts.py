"""run, replay, webhook: what people start beside what arrives."""

import argparse
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from loops.errors import RequestError
from server.cli.commands import Adder
from server.cli.output import plain, say, show, table
from server.cli.reach import named_url, reached, running_socket, settings_of
from server.cli.workflows import find_workflow

if TYPE_CHECKING:
    from server.cli.client import Client

_OVER = ("completed", "failed", "cancelled")
_POLL_SECONDS = 0.5
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_commands(add: Adder) -> None:
    """run, replay, webhook."""
    run = add.command("run", _run, "start a run by hand, of a workflow whose trigger is manual or schedule")
    run.add_argument("workflow", metavar="WORKFLOW", help="by id or name")
    run.add_argument(
        "--var", dest="variables", metavar="KEY=VALUE", type=pair, action="append", default=[],
        help="a variable of the workflow in place of its default; may be repeated",
    )  # fmt: skip
    run.add_argument("--key", default="", help="idempotency key: used again within 24 hours it starts nothing more")
    run.add_argument("--wait", action="store_true", help="wait for the run to end; exit code 1 if it did not complete")
    replay = add.command("replay", _replay, "play a delivery again, or all that a workflow missed in a period")
    replay.add_argument(
        "delivery", metavar="DELIVERY", nargs="?", help="our id of it, or the sender's, also as github:ID"
    )
    replay.add_argument("--workflow", metavar="ID|NAME", help="only for this workflow")
    replay.add_argument("--since", metavar="WHEN", type=_when, help="an instant, or a span before now such as 6h or 2d")
    replay.add_argument("--until", metavar="WHEN", type=_when, help="likewise (default: now)")
    webhook = add.command("webhook", _webhook, "show the address of a workflow whose trigger is a webhook")
    webhook.add_argument("workflow", metavar="WORKFLOW", help="by id or name")
    webhook.add_argument("--rotate", action="store_true", help="give it another address; the former is void")


def pair(text: str) -> tuple[str, str]:
    """A KEY=VALUE argument."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError("not KEY=VALUE")
    return key, value


def _when(text: str) -> str:
    """An instant with its offset; one that is given without is by this machine's time zone."""
    span = _SPAN.fullmatch(text)
    try:
        if span is not None:
            return (datetime.now(UTC) - timedelta(**{_UNITS[span[2]]: int(span[1])})).isoformat()
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        message = f"{text!r} is no time: give one such as 2026-11-30T09:00Z, or a span such as 6h"
        raise argparse.ArgumentTypeError(message) from error


def _run(args: argparse.Namespace) -> int:
    if args.wait:
        _require_a_service(args)
    with reached(args) as client:
        workflow = find_workflow(client, args.workflow)
        body = {"variables": dict(args.variables)}
        started = client.post("workflows", workflow["id"], "run", body=body, key=args.key)
        if not args.wait:
            show(args, started, lambda: say(f"run {started['run']} is {started['status']}"))
            return 0
        run = _ended(client, started["run"])
    reason = f" ({plain(run['reason'])})" if run["reason"] else ""
    show(args, run, lambda: say(f"run {run['id']} is {run['status']}{reason}"))
    return 0 if run["status"] == "completed" else 1


def _require_a_service(args: argparse.Namespace) -> None:
    """Raises RequestError where waiting would have no end, since nothing works on runs."""
    if named_url(args) is not None:
        return
    settings = settings_of(args)
    if settings.database_url.startswith("sqlite") and running_socket(settings.data_dir) is None:
        raise RequestError(
            f"no service runs on {settings.data_dir}, so the run would wait for one", hint="start one: loops serve"
        )


def _ended(client: "Client", run_id: str) -> Mapping[str, Any]:
    while True:
        run: Mapping[str, Any] = client.get("runs", run_id)
        if run["status"] in _OVER:
            return run
        time.sleep(_POLL_SECONDS)


def _replay(args: argparse.Namespace) -> int:
    missed = args.since is not None or args.until is not None
    if missed == (args.delivery is not None) or (missed and (args.since is None or args.workflow is None)):
        raise RequestError(
            "say what is to be played again", hint="a delivery, or a period: --workflow W --since WHEN [--until WHEN]"
        )
    with reached(args) as client:
        workflow = None if args.workflow is None else find_workflow(client, args.workflow)["id"]
        if missed:
            told = _replay_missed(client, str(workflow), args)
        else:
            body = {} if workflow is None else {"workflow": workflow}
            told = client.post("deliveries", args.delivery, "replay", body=body)
    show(args, told, lambda: _tell(told))
    return 0 if args.workflow is None or missed or any(one["run"] for one in told["items"]) else 1


def _replay_missed(client: "Client", workflow: str, args: argparse.Namespace) -> dict[str, Any]:
    """Part by part, to the end of the period, which is the same for all parts."""
    until = args.until or datetime.now(UTC).isoformat()
    items: list[Mapping[str, Any]] = []
    looked_at, cursor = 0, ""
    while True:
        body = {"since": args.since, "until": until, "cursor": cursor}
        part = client.post("workflows", workflow, "replay", body=body)
        items += part["items"]
        looked_at += part["looked_at"]
        if part["next"] is None:
            return {"items": items, "looked_at": looked_at}
        cursor = part["next"]
        if not args.json:
            say(f"{looked_at} deliveries looked at, {len(items)} played again …")


def _tell(told: Mapping[str, Any]) -> None:
    rows = [
        (
            one["workflow_name"],
            one["event"],
            one["delivery"],
            one["run"] or f"stopped at {one['stage']}: {one['reason']}",
        )
        for one in told["items"]
    ]
    looked = f" of {told['looked_at']} deliveries" if "looked_at" in told else ": no enabled workflow wants it"
    table(("WORKFLOW", "EVENT", "DELIVERY", "RUN"), rows, f"nothing was played again{looked}")


def _webhook(args: argparse.Namespace) -> int:
    with reached(args) as client:
        workflow = find_workflow(client, args.workflow)["id"]
        path = ("workflows", workflow, "webhook")
        told = client.post(*path, "rotate") if args.rotate else client.get(*path)
    show(args, told, lambda: _tell_webhook(told))
    return 0


def _tell_webhook(told: Mapping[str, Any]) -> None:
    say(f"{told['method']} {told['url']}")
    if told["verified"]:
        say("its senders have to prove that they know the secret of the connection")
    else:
        say(f"it has no secret yet: loops integrations update {told['connection']} --set webhook_secret=…")
