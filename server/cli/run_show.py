"""What `loops run-show` prints of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

from loops.tasks.result import skip_reason
from server.cli.output import plain, say, table, took, when
from server.cost_words import is_uncounted, unknown_words, with_source
from server.rounds import message_lines, output_lines, report_lines, round_lines

_LONGEST_TITLE = 60
_OVER = frozenset({"sent", "refused", "shown", "withdrawn"})


def tell_run(run: Mapping[str, Any], *, patches: bool = False) -> None:
    """The whole run: how it stands, its steps, its tasks round by round with what they asked to have written, whose
    `patches` are printed on demand, and its messages."""
    _tell_head(run)
    say()
    rows = [
        (step["name"] or step["id"], step["type"], _step_status(step), took(step["started_at"], step["finished_at"]))
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
        _tell_task(task, patches=patches)
    if run["messages"]:
        say("\nmessages")
    for message in run["messages"]:
        _indented(message_lines(message))


def _tell_head(run: Mapping[str, Any]) -> None:
    reason = f" ({plain(run['reason'])})" if run["reason"] else ""
    say(f"run       {run['id']}")
    say(f"workflow  {plain(run['workflow_name'])}, version {run['version']} ({run['workflow']})")
    delivery = f", delivery {run['delivery']}" if run["delivery"] else ""
    finished = f", finished {when(run['finished_at'])}" if run["finished_at"] else ""
    replay = f", replay {run['replay']}" if run.get("replay") else ""
    say(f"event     {plain(run['what'])} from {run['source']}{delivery}{replay}")
    say(f"status    {run['status']}{reason}{_waits(run)}")
    say(f"started   {when(run['started_at'])}{finished}")
    say(f"cost      {_run_cost(run)}")


def _waits(run: Mapping[str, Any]) -> str:
    """What a waiting run waits for, until when, and how that stands."""
    if not run["waiting_for"]:
        return ""
    if run.get("waiting_run"):
        return f", waits for its turn: run {run['waiting_run']} of this workflow is not over"
    until = f" until {when(run['waiting_until'])}" if run["waiting_until"] else ""
    told = f", waits for {run['waiting_for']}{until}"
    if run["waiting_for"] == "message":
        # One that was sent may have been there before it.
        open_ones = [one for one in run["messages"] if one["status"] not in _OVER]
        return told + "".join(f"; its message is in {_stands(one)}" for one in open_ones)
    if run["waiting_for"] == "task":
        return told + "".join(f"; its task is {_task_stands(one)}" for one in run["tasks"] if not one["finished_at"])
    return told


def _stands(message: Mapping[str, Any]) -> str:
    reason = f": {plain(message['reason'])}" if message["reason"] else ""
    later = f", next attempt {when(message['due_at'])}" if message["status"] == "retry" and message["due_at"] else ""
    return f"{message['status']}{reason}{later}"


def _task_stands(task: Mapping[str, Any]) -> str:
    activity = task["activity"] or {}
    doing = f", round {activity['round']}" if activity.get("round") else ""
    return f"{task['status']}{doing}"


def _run_cost(run: Mapping[str, Any]) -> str:
    """What the run cost; of one whose tasks are all known, also what those that are not over have spent."""
    worked = [task for task in run["tasks"] if task["rounds"]]
    known = [task["cost"] for task in worked if task["cost"] is not None]
    cost = sum(known) if worked else run["cost"]
    if len(known) < len(worked):
        unknown = [task for task in worked if task["cost"] is None]
        tokens = sum(task["input_tokens"] + task["output_tokens"] for task in unknown)
        return unknown_words([task["model"] for task in unknown], tokens, f"${cost:.4f}" if known else "")
    return with_source(f"${cost:.4f}", [task["model"] for task in worked], cost)


def _task_row(task: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        task["title"] if len(task["title"]) <= _LONGEST_TITLE else task["title"][: _LONGEST_TITLE - 1] + "…",
        task["status"],
        task["model"],
        task["rounds"],
        *(("unknown", "unknown") if _is_uncounted(task) else (task["input_tokens"], task["output_tokens"])),
        "unknown" if task["cost"] is None and task["rounds"] else f"${task['cost'] or 0:.4f}",
        task["id"],
    )


def _is_uncounted(task: Mapping[str, Any]) -> bool:
    tokens = task["input_tokens"] + task["output_tokens"]
    return bool(task["rounds"]) and task["cost"] is None and is_uncounted(task["model"], tokens)


def _tell_task(task: Mapping[str, Any], *, patches: bool) -> None:
    say(f"\n{plain(task['title'])}")
    for one in task["trace"]["rounds"]:
        _indented(round_lines(one))
    if task["ending"]:
        reason = f": {plain(task['reason'])}" if task["reason"] else ""
        say(f"  {plain(task['ending'])}{reason}")
    if task["thread"]:
        say(f"  {_thread_line(task['thread'])}")
    for output in task["outputs"]:
        _indented(output_lines(output, patch=patches))
    report = list(report_lines(task["trace"]["result"]))
    if report:
        say("  report")
        _indented(report, 4)


def _thread_line(thread: Mapping[str, Any]) -> str:
    """How the task stands with its Slack thread."""
    until = f" until {when(thread['listens_until'])}" if thread["listens_until"] else ""
    why = f": {plain(thread['reason'])}" if thread["reason"] else ""
    return f"Slack thread in {plain(thread['channel'])}: {thread['status']}{until}, turn {thread['turn']}{why}"


def _step_status(step: Mapping[str, Any]) -> str:
    return "skipped" if skip_reason(step["result"]) else str(step["status"])


def _tell_step(step: Mapping[str, Any]) -> None:
    lines = [plain(line["text"]) for line in step["log"]]
    if reason := skip_reason(step["result"]):
        lines.append("skipped: " + plain(reason))
    if step["error"]:
        lines.append("error: " + plain(step["error"].get("message", "")))
        if step["error"].get("hint"):
            lines.append("what mends it: " + plain(step["error"]["hint"]))
    if lines:
        say(f"\n{plain(step['name'] or step['id'])}")
        _indented(lines)


def _indented(lines: Iterable[str], by: int = 2) -> None:
    for line in lines:
        say(" " * by + line)
