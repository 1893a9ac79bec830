"""An AI task on the page of its run: how it stands, what it was told, and a card for each round of its agent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from loops.agent.transcript import Call, CallResult, Round, Usage
from loops.event import JsonValue
from loops.store.task_queries import Spent
from loops.store.tasks import TaskRow
from loops.store.threads import ThreadRow
from server.cost_words import is_uncounted, with_source
from server.pages.drawn import drawn
from server.pages.inert import Shown, laid_out_json, shown_value
from server.pages.money import money, spent_words
from server.pages.outputs import OutputShown
from server.pages.words import span_words, took

MOST_TEXT = 100_000
MOST_CALL = 20_000
_BRIEF = 100
_LONG = 600
_MANY_LINES = 12

_ENDINGS = {
    "done": "finished by itself",
    "noop": "found nothing to do",
    "max_rounds": "the round limit was reached",
    "timeout": "the time was over",
    "budget": "the budget was spent",
    "stuck": "it repeated itself",
    "no_tool": "it stopped calling tools",
    "invalid_output": "it gave no valid result",
    "tool_error": "a tool broke",
    "provider_error": "the model did not answer",
    "runner_error": "its runner failed",
    "not_equipped": "something that it works with is not there",
    "internal_error": "a fault of Loops",
    "refused": "what it asked to have written was not taken",
    "interrupted": "its worker died",
    "cancelled": "cancelled",
}
_GUARDS = {
    "timeout": "told to finish: the time is nearly over",
    "max_rounds": "told to finish: the last round",
    "no_tool": "told to finish: it called no tools",
    "stuck": "told to finish: it repeated itself",
    "budget": "told to finish: the budget is nearly spent",
}
_FINISHES = {
    "length": "the answer was cut at the output limit",
    "filtered": "the provider withheld the answer",
    "error": "the model did not answer",
    "expired": "the time was over before the answer was whole",
    "cancelled": "cancelled before the answer was whole",
}


@dataclass(frozen=True, slots=True)
class CallShown:
    """A call and its result. `code` is empty for a success. Without a result, `pending` says whether one may come."""

    id: str
    name: str
    arguments: Shown | None
    arguments_fold: bool
    result: Shown | None
    result_fold: bool
    code: str
    message: str
    hint: str
    took: str | None
    pending: bool


@dataclass(frozen=True, slots=True)
class RoundShown:
    """A round as a card. One that the page has already is `kept`: it has no content, and is left as it stands."""

    id: str
    number: int
    kept: bool = False
    turn: int = 1
    said: Shown | None = None
    started_at: datetime | None = None
    took: str = ""
    notice: str = ""
    guard: str = ""
    finish: str = ""
    requests: int = 1
    elided: bool = False
    thought: Shown | None = None
    text: Shown | None = None
    calls: tuple[CallShown, ...] = ()
    usage: Usage | None = None
    cost: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent began with. `opening` has the event in its <triggering_event> block."""

    system: Shown | None
    opening: Shown | None
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Came:
    """What the task came to: its report as written and as drawn, the fields that were asked for, the pull requests."""

    message: Shown | None
    output: tuple[tuple[str, Shown], ...]
    pr_urls: tuple[str, ...]
    drawn: Markup | None = None


@dataclass(frozen=True, slots=True)
class TaskShown:
    """A task in the step that asked for it. `told` is None where the page has it already. `thread` tells of the Slack
    thread that it answers in, `acts` whether it still does something, there or for its run."""

    id: str
    title: str
    model: str
    status: str
    ending: str
    reason: str
    line: str
    tail: Shown | None
    took: str | None
    spent: Spent
    cost: str
    is_uncounted: bool
    round_count: int
    rounds: Sequence[RoundShown]
    told: Told | None
    came: Came | None
    settled: int
    thread: str = ""
    acts: bool = False
    outputs: tuple[OutputShown, ...] = ()

    @property
    def why(self) -> str:
        """The reason, unless one of the outputs tells it beside itself."""
        told = any(one.reason and one.reason in self.reason for one in self.outputs)
        return "" if told else self.reason


def model_words(model: str) -> str:
    """What a model is called."""
    return model or "the model of this service"


def ending_words(ending: str) -> str:
    """How a task ended, in words."""
    return _ENDINGS.get(ending, ending.replace("_", " "))


def activity_words(activity: Mapping[str, Any] | None, now: datetime) -> str:
    """`round 3: calling event_read, for 4 s`: what a task does at this moment."""
    if not activity:
        return ""
    calls = activity.get("calls")
    names = ", ".join(str(one) for one in calls) if isinstance(calls, list) else ""
    match activity.get("phase"):
        case "calling":
            what = f"calling {names}" if names else "waiting for its calls"
        case "retrying":
            what = f"asking the model again ({activity['why']})" if activity.get("why") else "asking the model again"
        case _:
            what = "the model answers" if activity.get("text") else "asking the model"
    return f"round {activity.get('round')}: {what}{_since(activity.get('since'), now)}"


def _since(since: object, now: datetime) -> str:
    try:
        seconds = (now - datetime.fromisoformat(str(since))).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f", for {span_words(seconds)}" if seconds >= 2 else ""


def shown_task(
    row: TaskRow,
    request: Mapping[str, Any] | None,
    rounds: Sequence[Mapping[str, Any]],
    spent: Spent | None,
    now: datetime,
    *,
    after: int = 0,
    thread: ThreadRow | None = None,
) -> TaskShown:
    """A task, of whose rounds the page has those up to `after`; `request` is None where it has that too.

    `spent` is what its rounds add up to; without it the sums of the row count.
    """
    cards = [RoundShown(_round_id(row.id, number), number, kept=True) for number in range(1, after + 1)]
    read = [Round.from_json(one) for one in rounds]
    works = not row.over or (thread is not None and thread.status == "working")
    cards += [shown_round(row.id, one, is_open=works) for one in read]
    whole = spent or Spent(row.input_tokens, row.output_tokens, None, row.cost or 0.0, int(_unpriced(row)))
    return TaskShown(
        id=row.id,
        title=row.title,
        model=model_words(row.model),
        status=row.status,
        ending=ending_words(row.ending) if row.ending else "",
        reason=row.reason,
        line=_line(row, now),
        tail=_tail(row) if works else None,
        took=took(row.started_at, row.finished_at or now),
        spent=whole,
        cost=with_source(spent_words(whole, [row.model]), [row.model], whole.known),
        is_uncounted=bool(whole.unknown) and is_uncounted(row.model, whole.input + whole.output),
        round_count=len(cards),
        rounds=cards,
        told=None if request is None else _told(request),
        came=_came(row.result),
        settled=_settled(after, read),
        thread="" if thread is None else thread_words(row, thread, now),
        acts=not row.over or (thread is not None and thread.live),
    )


def _unpriced(row: TaskRow) -> bool:
    return row.over and row.cost is None and row.rounds > 0


def _line(row: TaskRow, now: datetime) -> str:
    if row.over:
        return ""
    if row.cancel_requested_at is not None:
        return "asked to stop"
    if row.status == "queued":
        return "waits for its turn among the tasks"
    return activity_words(row.activity, now) or "at work"


def _tail(row: TaskRow) -> Shown | None:
    text = (row.activity or {}).get("text")
    return shown_value(text, MOST_CALL) if isinstance(text, str) and text else None


def thread_words(row: TaskRow, thread: ThreadRow, now: datetime) -> str:
    """How a task stands with its Slack thread."""
    turn = f"turn {thread.turn}" if thread.turn > 1 else "it answers there"
    signs = "" if thread.reaction in {"", "shown"} else f"; no eyes on its first message: {thread.reaction}"
    if thread.status == "listening" and thread.listens_until is not None:
        left = span_words(max(0.0, (thread.listens_until - now).total_seconds()))
        told = f"{len(thread.turns)} answered, it listens for {left} more"
    elif thread.status == "working":
        doing = activity_words(row.activity, now) if row.over and row.activity else "at work"
        told = f"{turn}, {doing}"
    else:
        told = f"{len(thread.turns)} answered, closed: {thread.reason}"
    return f"Slack thread in {thread.channel}: {told}{signs}"


def _settled(after: int, read: Sequence[Round]) -> int:
    """The last round that will not change any more, with every one before it."""
    for one in read:
        if one.number != after + 1 or not one.settled:
            break
        after += 1
    return after


def _told(request: Mapping[str, Any]) -> Told:
    fields = request.get("fields")
    asked = tuple((str(name), str(kind)) for name, kind in fields.items()) if isinstance(fields, dict) else ()
    return Told(_text(request.get("system")), _text(request.get("opening")), asked)


def _text(value: object) -> Shown | None:
    return shown_value(value, MOST_TEXT) if isinstance(value, str) and value.strip() else None


def _came(result: Mapping[str, JsonValue] | None) -> Came | None:
    if result is None:
        return None
    output, urls = result.get("output"), result.get("pr_urls")
    fields = output.items() if isinstance(output, dict) else ()
    message = _text(result.get("final_message"))
    return Came(
        message,
        tuple((name, _field(value)) for name, value in fields),
        tuple(str(url) for url in urls) if isinstance(urls, list) else (),
        None if message is None else drawn(message.text),
    )


def _field(value: JsonValue) -> Shown:
    if isinstance(value, str):
        return shown_value(value, MOST_CALL)
    return _json_text(json.dumps(value, ensure_ascii=False))


def _round_id(task_id: str, number: int) -> str:
    return f"round-{task_id}-{number}"


def shown_round(task_id: str, one: Round, *, is_open: bool = False) -> RoundShown:
    """A round. In one that `is_open` and not settled, calls without a result are still being executed."""
    reply, name = one.reply, _round_id(task_id, one.number)
    results = {result.call_id: result for result in one.results}
    return RoundShown(
        id=name,
        number=one.number,
        turn=one.turn,
        said=_text(one.said),
        started_at=one.started_at,
        took=span_words(one.seconds),
        notice=one.notice,
        guard=_GUARDS.get(one.guard, one.guard) if one.guard else "",
        finish=_FINISHES.get(reply.finish, ""),
        requests=one.requests,
        elided=one.elided,
        thought=_text(reply.thought),
        text=_text(reply.text),
        calls=tuple(
            _call(f"{name}-call-{index}", call, results.get(call.id), is_open=is_open)
            for index, call in enumerate(reply.calls, start=1)
        ),
        usage=reply.usage,
        cost="" if one.cost is None else money(one.cost),
    )


def _call(name: str, call: Call, result: CallResult | None, *, is_open: bool) -> CallShown:
    arguments = _json_text(call.arguments)
    shown = None if result is None else _json_text(result.text)
    code, message, hint = ("", "", "") if result is None else _failure(result)
    return CallShown(
        id=name,
        name=call.name,
        arguments=None if call.arguments.strip() in {"", "{}"} else arguments,
        arguments_fold=_is_long(arguments),
        result=shown,
        result_fold=shown is not None and (_is_long(shown) or bool(code)),
        code=code,
        message=message,
        hint=hint,
        took=None if result is None else span_words(result.seconds),
        pending=result is None and is_open,
    )


def _json_text(text: str) -> Shown:
    """JSON laid out, where it does not fit on a line; what is none as it stands."""
    if len(text) <= _BRIEF and text.isprintable():
        return Shown(text, len(text), is_cut=False, is_brief=True)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return shown_value(text, MOST_CALL)
    laid_out, is_cut = laid_out_json(text, MOST_CALL)
    return Shown(laid_out, len(text), is_cut, is_json=True)


def _is_long(shown: Shown) -> bool:
    return len(shown.text) > _LONG or shown.text.count("\n") > _MANY_LINES


def _failure(result: CallResult) -> tuple[str, str, str]:
    """The code, message and hint of a call that failed."""
    if not result.code:
        return "", "", ""
    try:
        error = json.loads(result.text)["error"]
        return result.code, str(error["message"]), str(error.get("hint", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return result.code, "", ""
