"""Scripts that run into each guard of an agent, chosen by the last word of a task's prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import Script, ScriptedTurn
from loops.agent.transcript import Assistant, Message, Usage, User
from loops.store import outbox
from loops.store.outbox import OutboxRow
from tests.integration.running import PROJECT, Running, log_action, workflow
from tests.integration.tasking import calls, ends, task_action

FORCED_REPORT = "As far as I got."
# At a dollar a million tokens of input and ten of output, 40,000 tokens of output leave no room under the cost for an
# answer as long as one may be, and some for a short one; 50,000 of input do so under the tokens.
LIMITS: Mapping[str, Any] = {"task_rounds": "5", "task_tokens": "60000", "task_cost": "0.46", "price": "1/10"}
_PATHS = ("event", "properties", "properties.title", "subject", "uuid")


@dataclass(frozen=True, slots=True)
class Trap:
    """What leads to a guard, and what is told of it."""

    ending: str
    reason: str
    last_words: str
    turns: Sequence[ScriptedTurn]


def _looks(at: str, text: str, **more: Any) -> ScriptedTurn:
    return calls("event_read", {"path": at}, text, **more)


TRAPS: Mapping[str, Trap] = {
    "rounds": Trap(
        "max_rounds",
        "the limit of 5 rounds is reached",
        "Looked at uuid.",
        [_looks(path, f"Looked at {path}.") for path in _PATHS],
    ),
    "idle": Trap(
        "no_tool",
        "no tool was called in 3 rounds in a row",
        "Three.",
        [ScriptedTurn("One."), ScriptedTurn("Two."), ScriptedTurn("Three.")],
    ),
    "stuck": Trap(
        "stuck",
        "the same calls gave the same results in 4 rounds in a row",
        "Again 4.",
        [_looks("event", f"Again {number}.") for number in range(1, 5)],
    ),
    "tokens": Trap(
        "budget",
        "the budget of this task is used up",
        "A long thought.",
        [_looks("event", "A long thought.", usage=Usage(50_000, 3_000))],
    ),
    "cost": Trap(
        "budget",
        "the budget of this task is used up",
        "A dear thought.",
        [_looks("event", "A dear thought.", usage=Usage(1_000, 40_000))],
    ),
    "clock": Trap(
        "timeout",
        "the time limit of 10 seconds is reached",
        "Looked once.",
        [_looks("event", "Looked once."), ScriptedTurn("Never said.", pause=60)],
    ),
}


def guard_words(name: str) -> tuple[Sequence[ScriptedTurn], ScriptedTurn]:
    """The turns of a script, and what is said when the end is forced: `forced-…` then finalizes, `failing-…` not."""
    how, _, trap = name.partition("-")
    return TRAPS[trap].turns, ends(FORCED_REPORT) if how == "forced" else ScriptedTurn("")


def by_prompt(
    words: Callable[[str], tuple[Sequence[ScriptedTurn], ScriptedTurn]] = guard_words,
) -> Callable[[], Script]:
    """A script for every task: its turns are those of the last word of the task's prompt."""

    def turn(messages: Sequence[Message], _tools: Sequence[ToolSpec]) -> ScriptedTurn:
        said = [message.text for message in messages if isinstance(message, User)]
        turns, forced = words(said[0].split("\n")[1].split()[-1])
        if "Call finalize now" in said[-1]:
            return forced
        return turns[sum(isinstance(message, Assistant) for message in messages)]

    return lambda: [turn] * 100


def slack_action(name: str, text: str, **more: Any) -> dict[str, Any]:
    """A Slack message over a connection that is not there: it stands in the outbox as shown."""
    inputs = {"slack_workspace": {"value": 999}, "channel": {"value": "C1"}, "text": {"value": text}}
    config = {"template_id": "template-slack", "inputs": inputs}
    return {"id": name, "name": name, "type": "function", "config": config, **more}


def telling(name: str, **more: Any) -> dict[str, Any]:
    """A workflow whose task is told in a message, and then noted."""
    shows = slack_action("tell", "{steps.task.final_message}")
    task = task_action(prompt=f"Work as {name}", **more)
    return workflow(name, task, shows, log_action("after", "went on"), repository=f"acme/{name}")


async def outbox_of(service: Running, run_id: str) -> Sequence[OutboxRow]:
    return await service.read(lambda connection: outbox.listed(connection, PROJECT, run_id=run_id))
