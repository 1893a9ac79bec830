"""What a command came to: what it says of itself, held against what is known without it.

In this order: what we stopped it for, what it says that went wrong, its exit code, and what its report lacks. An exit
code of 0 and a cheerful text prove nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loops.agent.guards import Ending
from loops.agent.result import AgentResult
from loops.agent.tools.finalize import FieldType
from loops.agent.tools.tool import ToolError
from loops.agent.transcript import Transcript
from loops.tasks.runners.brief import partial_of, report_of
from loops.tasks.runners.told import Told
from loops.tasks.workspace.sandbox import Ran

_TAIL = 300


@dataclass(frozen=True, slots=True)
class Stop:
    """Why we ended a command."""

    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True)
class Came:
    """What is known of a command that is over: `ran` is None where `stop` ended it."""

    told: Told | None
    ran: Ran | None
    stop: Stop | None
    transcript: Transcript
    edits: int = 0


def verdict(came: Came, fields: Mapping[str, FieldType]) -> AgentResult:
    """The result."""
    stop = came.stop or _stopped(came.ran) or _failed(came)
    if stop is None and came.told is not None:
        try:
            report = report_of(came.told, fields)
        except ToolError as error:
            stop = Stop("invalid_output", f"the agent ended without a report: {error.message}")
        else:
            reason = report.reason if report.outcome == "noop" else "the agent reported"
            return AgentResult(
                report.outcome, reason, came.transcript, report.message, output=report.output, edits=came.edits
            )
    stop = stop or Stop("runner_error", "it ended without saying how")
    partial = partial_of(came.told or Told(stop.ending), fields)
    text = partial.message or came.transcript.last_text
    return AgentResult(
        stop.ending, stop.reason, came.transcript, text, fallback=True, output=partial.output, edits=came.edits
    )


def _stopped(ran: Ran | None) -> Stop | None:
    """What the sandbox stopped it for."""
    if ran is None:
        return None
    match ran.stopped:
        case "":
            return None
        case "timeout":
            return Stop("timeout", f"it had {ran.seconds:.0f} seconds, and was stopped")
        case "idle":
            return Stop("timeout", f"it gave no sign of life, and was stopped after {ran.seconds:.0f} seconds in all")
        case "memory":
            return Stop("runner_error", "it used more memory than it may, and was stopped")
        case "output":
            return Stop("runner_error", "it printed more than it may, and was stopped")
        case "cancelled":
            return Stop("cancelled", "cancelled on request")


def _failed(came: Came) -> Stop | None:
    """What it says that went wrong, or its exit code does."""
    told, code = came.told, came.ran.code if came.ran else 0
    if told is not None and told.ending != "done":
        return Stop(told.ending, told.reason or f"it ended as {told.ending}")
    if code:
        said = f": {_last_words(came.ran)}" if _last_words(came.ran) else ""
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Stop("runner_error", f"it ended {how}{said}")
    if told is None:
        return Stop("runner_error", "it ended without a result, as if all were well")
    if told.refused:
        tools = ", ".join(told.refused)
        return Stop("runner_error", f"it reports success, and was not allowed to use {tools}")
    return None


def _last_words(ran: Ran | None) -> str:
    return " ".join(ran.stderr.decode("utf-8", "replace").split())[-_TAIL:] if ran else ""


def unmasked(result: AgentResult, *, changed: bool) -> AgentResult:
    """The result as what is in its checkout shows it: an agent that says that it edited files, of which none is
    changed, has failed."""
    if result.ending != "done" or changed or not result.edits:
        return result
    times = "once" if result.edits == 1 else f"{result.edits} times"
    return replace(
        result,
        ending="runner_error",
        reason=f"it says that it edited files {times}, and none is changed",
        fallback=True,
    )
