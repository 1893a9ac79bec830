"""A run's tasks and messages as lines for people: `loops run-show` and `loops demo` print them alike."""

from collections.abc import Iterator, Mapping
from typing import Any

from server.terminal import plain, when

_LONGEST_ARGUMENTS = 60
ANSWERS = {"happened": "said that it was written", "again": "had it sent"}
_WORDS = {
    "shown": "shown here alone",
    "retry": "retry, not sent yet",
    "pending": "pending, not sent yet",
    "uncertain": "uncertain, nobody knows whether it arrived",
}


def round_lines(one: Mapping[str, Any]) -> Iterator[str]:
    """A round of a task: what the model said, what that cost, and each of its calls."""
    reply, usage = one["reply"], one["reply"]["usage"]
    cost = "" if one["cost"] is None else f", ${float(one['cost']):.4f}"
    spent = f"{usage['input']} tokens in, {usage['output']} out{cost}"
    first, *more = reply["text"].splitlines() or ["-"]
    turn = f", turn {one['turn']}" if one.get("turn", 1) > 1 else ""
    yield f"round {one['number']}{turn}  {plain(first) or '-'}" + ("" if more else f"  [{spent}]")
    for number, line in enumerate(more, start=1):
        yield f"  {plain(line)}" + (f"  [{spent}]" if number == len(more) else "")
    results = {result["call_id"]: result for result in one["results"]}
    for call in reply["calls"]:
        given = call["arguments"]
        arguments = given if len(given) <= _LONGEST_ARGUMENTS else given[:_LONGEST_ARGUMENTS] + " …"
        result = results.get(call["id"])
        came = "no result yet" if result is None else result["code"] or "ok"
        yield f"  {plain(call['name'])}({plain(arguments)}) -> {plain(came)}"


def report_lines(result: Mapping[str, Any] | None) -> Iterator[str]:
    """What a task came to: its report, and the fields that were asked for."""
    if result is None:
        return
    yield from (f"| {plain(line)}" for line in str(result.get("final_message") or "").splitlines())
    yield from (f"{plain(name)} = {plain(value)}" for name, value in (result.get("output") or {}).items())


def message_lines(item: Mapping[str, Any]) -> Iterator[str]:
    """A message: where it goes, where it stands and why, what mends it, and where to read it."""
    to = f" to {plain(item['to'])}" if item["to"] else ""
    words = _WORDS.get(item["status"], item["status"])
    reason = f": {plain(item['reason'])}" if item["reason"] else ""
    yield f"{item['kind']}{to}  {words}{reason}"
    if item["status"] == "retry" and item["due_at"]:
        yield f"  next attempt: {when(item['due_at'])}"
    if item["mend"]:
        yield f"  what mends it: {plain(item['mend'])}"
    yield f"  page: /outbox/{item['id']}"


def output_lines(item: Mapping[str, Any], *, patch: bool) -> Iterator[str]:
    """What a task asked to have written: where, what became of it and why, and its `patch` where that is asked for."""
    kind = str(item["kind"]).replace("_", " ")
    reason = f", {plain(item['reason'])}" if item["reason"] else ""
    title = item["body"].get("title")
    named = f": {plain(title)}" if title else ""
    yield f"{kind} in {plain(item['repository'])}: {item['status']}{reason}{named}"
    if item["url"]:
        yield f"  {plain(item['url'])}"
    for one in item["answers"]:
        yield f"  {plain(one['by'])} {ANSWERS[one['did']]} at {when(one['at'])}, when it was {one['was']}"
    this = f"{item['task']} {item['number']}"
    if item["status"] == "uncertain":
        yield f"  it is there: loops output-settle {this} ADDRESS"
    if item["can_send"]:
        yield f"  have it sent: loops output-send {this}"
    if not item["patch"]:
        return
    if not patch:
        yield f"  its patch: loops run-show --patch, or loops output-patch {this}"
        return
    yield from (f"  {plain(line)}" for line in item["patch"].splitlines())
    if item["patch_cut"]:
        yield "  … the patch goes on"
