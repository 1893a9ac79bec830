"""forecast: what a workflow would have done in the last days."""

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from loops.errors import RequestError
from server.cli.commands import Adder
from server.cli.output import plain, say, show, when
from server.cli.reach import reached
from server.cli.workflows import find_workflow, read_documents_of

_STDIN = "-"
_COLUMNS = 56
_BARS = "▁▂▃▄▅▆▇█"
_STAGES = (
    ("start", "start a run"),
    ("overlap", "stopped by overlap"),
    ("debounce", "put off by debounce"),
    ("rate_limit", "over the rate limit"),
    ("mask", "masked"),
    ("claim", "same fact again"),
    ("subject_limit", "over the limit of its subject"),
    ("unverified", "not verified"),
    ("own_output", "own output"),
    ("filters", "filters"),
    ("trigger", "another trigger"),
)


def add_commands(add: Adder) -> None:
    """forecast."""
    command = add.command(
        "forecast", _forecast, "hold a workflow against what was received, as if it had been enabled; starts nothing"
    )
    command.add_argument("workflow", metavar="WORKFLOW|FILE", help="id or name, or a JSON or YAML file of one workflow")
    command.add_argument(
        "--days", type=_days, default=7, metavar="N", help="the last N days, a whole number from 1 to 90 (default: 7)"
    )


def _days(text: str) -> int:
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not 1 <= days <= 90:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of days, 1 to 90")
    return days


def _forecast(args: argparse.Namespace) -> int:
    is_file = args.workflow == _STDIN or Path(args.workflow).is_file()
    documents = list(read_documents_of([args.workflow])) if is_file else []
    if len(documents) > 1:
        raise RequestError(f"{args.workflow}: holds {len(documents)} workflows", hint="a forecast is of one")
    with reached(args) as client:
        if documents:
            found = client.post("workflows", "forecast", body={"document": documents[0][1], "days": args.days})
        else:
            workflow = find_workflow(client, args.workflow)["id"]
            found = client.post("workflows", workflow, "forecast", body={"days": args.days})
    show(args, found, lambda: _tell(found))
    return 0


def _tell(found: Mapping[str, Any]) -> None:
    say(f"{plain(found['name'])}: {when(found['since'])} to {when(found['until'])}")
    say(f"looked at  {found['deliveries']} deliveries, {found['events']} events{_odd(found)}")
    counts = found["counts"]
    for stage, words in _STAGES:
        if counts.get(stage):
            say(f"{counts[stage]:>9}  {words}")
    for stage in sorted(counts.keys() - {name for name, _ in _STAGES}):
        say(f"{counts[stage]:>9}  {plain(stage)}")
    line, hours = sparkline(found)
    if line:
        say(f"runs       {line}  {hours:g} h each")
    runs, tasks, cost = found["runs"], found["tasks"], found["cost"]
    if runs["waited"] or runs["replaced"]:
        say(f"overlap    {runs['waited']} waited for their turn, {runs['replaced']} replaced by a newer one")
    if found["quotas"]:
        say(f"tasks      {tasks['created']} created, {sum(tasks['refused'].values())} refused by quotas")
        total = "unknown" if cost["total"] is None else f"about ${cost['total']:.2f}"
        say(f"cost       {total}: {plain(cost['based_on'])}")
    for warning in found["warnings"]:
        say(f"warning    {plain(warning)}")
    for note in found["notes"]:
        say(f"note       {plain(note)}")


def _odd(found: Mapping[str, Any]) -> str:
    told = [f"{found[name]} {words}" for name, words in (("ignored", "ignored"), ("unreadable", "unreadable"))]
    return f" ({', '.join(told)})" if found["ignored"] or found["unreadable"] else ""


def sparkline(found: Mapping[str, Any]) -> tuple[str, float]:
    """The runs that would have started over the time, a bar a column, and how many hours a column has; none where none
    would have."""
    since, until = (datetime.fromisoformat(found[name]) for name in ("since", "until"))
    hours = max(1, -(-int((until - since) / timedelta(hours=1)) // _COLUMNS))
    columns = [0] * max(1, -(-int((until - since) / timedelta(minutes=1)) // (60 * hours)))
    for hour in found["hours"]:
        place = int((datetime.fromisoformat(hour["at"]) - since) / timedelta(hours=hours))
        columns[min(max(0, place), len(columns) - 1)] += hour["counts"].get("start", 0)
    return _bars(columns), hours


def _bars(columns: Sequence[int]) -> str:
    most = max(columns, default=0)
    if not most:
        return ""
    return "".join(" " if not one else _BARS[(one * len(_BARS) - 1) // most] for one in columns)
