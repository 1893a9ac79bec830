"""What keeps an agent from running away, judged from its rounds alone.

In this order: a round that was forced and did not end, the clock, a model that gave up, malformed calls, the reserve
of the clock, the round limit, rounds without a tool call, and the same calls with the same results. Cancelling stands
above all of them, and is not judged here: it acts inside requests and tools too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loops.agent.arguments import read_arguments
from loops.agent.tools.tool import ToolError
from loops.agent.transcript import Call, Guard, Round

Ending = Literal[
    "done",
    "noop",
    "max_rounds",
    "timeout",
    "budget",
    "stuck",
    "no_tool",
    "invalid_output",
    "tool_error",
    "provider_error",
    "runner_error",
    "not_equipped",
    "internal_error",
    "refused",
    "interrupted",
    "cancelled",
]
"""How an agent ends. `runner_error` and `interrupted` are of agents that are started as commands, `refused` is none of
its own: what it asked to have written was not taken, and `not_equipped` and `internal_error` are of tasks whose agent
could not go on: something that it works with is not there, or Loops is at fault."""

MALFORMED: Mapping[str, str] = {
    "BAD_JSON": "its arguments were no JSON",
    "BAD_ARGUMENTS": "its arguments did not fit the tool",
    "TRUNCATED_CALL": "the call was cut at the output limit",
    "UNKNOWN_TOOL": "it called a tool that is not there",
    "FINALIZE_EMPTY": "it finished without a report",
    "FINALIZE_NO_REASON": "it finished without a reason",
}
"""Codes of calls that the model has to write again, and what they are in words."""

_HARDLY_ANY = 0.05  # seconds: no request that is worth its cost
_NUDGE_STUCK = (
    "The same calls gave the same results {count} times. Do not repeat them: go another way, or call finalize with "
    "what is known."
)
_NUDGE_NO_TOOL = "No tool was called. Go on with a tool, or call finalize when the work is done."
_NUDGE_CUT = "The answer was cut at the output limit. Write less at once, or call finalize with a shorter report."
_FORCED = "{why} Call finalize now with what is known; say what is left undone. No other tool will be executed."


@dataclass(frozen=True, slots=True)
class Limits:
    """How far an agent may go. Times in seconds, `result_size` in characters, `context` in tokens."""

    max_rounds: int = 40
    wall_clock: float = 300.0
    reserve: float = 20.0
    no_tool_rounds: int = 3
    stuck_nudge: int = 2
    stuck_stop: int = 4
    malformed_rounds: int = 3
    tool_timeout: float = 60.0
    result_size: int = 16_000
    calls_per_round: int = 32
    requests: int = 5
    context: int = 128_000
    finalize_tokens: int = 4_096

    def __post_init__(self) -> None:
        if not 1 <= self.max_rounds <= 100:
            raise ValueError(f"max_rounds is {self.max_rounds}; 1 to 100")
        if self.wall_clock <= 0:
            raise ValueError(f"wall_clock is {self.wall_clock}; more than 0 seconds")

    @property
    def kept_back(self) -> float:
        """The reserve: never more than a quarter of the wall clock."""
        return min(self.reserve, self.wall_clock / 4)


@dataclass(frozen=True, slots=True)
class Proceed:
    """Ask for another round; `notice` is said first."""

    notice: str = ""


@dataclass(frozen=True, slots=True)
class Force:
    """Ask once more, for `finalize` and nothing else."""

    guard: Guard
    notice: str


@dataclass(frozen=True, slots=True)
class Stop:
    """It is over without a result."""

    ending: Ending
    reason: str


Judgement: TypeAlias = Proceed | Force | Stop


def judge(rounds: Sequence[Round], limits: Limits, left: float) -> Judgement:
    """What follows after these rounds, none of which ended the work; `left` is the rest of the wall clock."""
    if not rounds:
        return Proceed() if left > 0 else Stop("timeout", reason_of("timeout", limits))
    stop = _over(rounds, limits, left)
    if stop is not None:
        return stop
    guard = _tripped(rounds, limits, left)
    if guard is not None:
        return force(guard, limits)
    return Proceed(_notice(rounds, limits))


def force(guard: Guard, limits: Limits) -> Force:
    """The forced end for one guard."""
    return Force(guard, _FORCED.format(why=f"{reason_of(guard, limits)}."))


def reason_of(guard: Guard, limits: Limits) -> str:
    """A guard's reason in words."""
    match guard:
        case "timeout":
            return f"the time limit of {limits.wall_clock:g} seconds is reached"
        case "max_rounds":
            return f"the limit of {limits.max_rounds} rounds is reached"
        case "no_tool":
            return f"no tool was called in {limits.no_tool_rounds} rounds in a row"
        case "stuck":
            return f"the same calls gave the same results in {limits.stuck_stop} rounds in a row"
        case "budget":
            return "the budget of this task is used up"


def _over(rounds: Sequence[Round], limits: Limits, left: float) -> Stop | None:
    last = rounds[-1]
    if last.guard:
        return Stop(last.guard, f"{reason_of(last.guard, limits)}; the agent did not finalize")
    if left <= 0:
        return Stop("timeout", reason_of("timeout", limits))
    if last.reply.finish == "filtered":
        return Stop("provider_error", "the provider's content filter withheld the answer")
    if last.reply.finish == "error":
        return Stop("provider_error", "the provider ended the answer with an error")
    if (count := _trailing(rounds, _is_malformed)) >= limits.malformed_rounds:
        faults = dict.fromkeys(MALFORMED[result.code] for result in last.results)
        said = f"the model made no usable call in {count} rounds in a row: {', and '.join(faults)}"
        return Stop("invalid_output", said)
    return None


def _tripped(rounds: Sequence[Round], limits: Limits, left: float) -> Guard | None:
    if left <= limits.kept_back + _HARDLY_ANY or rounds[-1].reply.finish == "expired":
        return "timeout"
    if len(rounds) >= limits.max_rounds:
        return "max_rounds"
    if _trailing(rounds, lambda one: not one.reply.calls) >= limits.no_tool_rounds:
        return "no_tool"
    if _repeats(rounds) >= limits.stuck_stop:
        return "stuck"
    return None


def _notice(rounds: Sequence[Round], limits: Limits) -> str:
    last = rounds[-1]
    if last.reply.finish == "length":
        return _NUDGE_CUT
    if not last.reply.calls:
        return _NUDGE_NO_TOOL
    count = _repeats(rounds)
    return _NUDGE_STUCK.format(count=count) if count == limits.stuck_nudge else ""


def _is_malformed(one: Round) -> bool:
    return bool(one.results) and all(result.code in MALFORMED for result in one.results)


def _trailing(rounds: Sequence[Round], holds: Callable[[Round], bool]) -> int:
    count = 0
    for one in reversed(rounds):
        if not holds(one):
            break
        count += 1
    return count


def _repeats(rounds: Sequence[Round]) -> int:
    """In how many rounds up to the last one the same calls gave the same results."""
    last = _signature(rounds[-1])
    return _trailing(rounds, lambda one: _signature(one) == last) if rounds[-1].reply.calls else 0


def _signature(one: Round) -> tuple[tuple[str, str, str], ...]:
    texts = [result.text for result in one.results]
    return tuple((call.name, canonical(call), text) for call, text in zip(one.reply.calls, texts, strict=False))


def canonical(call: Call) -> str:
    """A call's arguments in one spelling; as they are where they are no object."""
    try:
        return json.dumps(read_arguments(call.arguments), sort_keys=True)
    except ToolError:
        return call.arguments
