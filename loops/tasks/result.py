"""What a task came to, as the step, its run and its message see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loops.event import JsonValue

TaskStatus = Literal["completed", "incomplete", "failed", "cancelled", "skipped"]
MOST_MESSAGE_BYTES = 64_000

_STATUSES: Mapping[str, TaskStatus] = {
    "done": "completed",
    "noop": "completed",
    "max_rounds": "incomplete",
    "timeout": "incomplete",
    "budget": "incomplete",
    "stuck": "incomplete",
    "no_tool": "incomplete",
    "refused": "incomplete",
    "invalid_output": "failed",
    "tool_error": "failed",
    "provider_error": "failed",
    "runner_error": "failed",
    "not_equipped": "failed",
    "internal_error": "failed",
    "interrupted": "failed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task that is over. `ending` is the word for how, `reason` says it, and `mend` what mends it where whoever gave
    the reason knows that; a skipped task was never created."""

    status: TaskStatus
    ending: str
    reason: str
    final_message: str = ""
    output: Mapping[str, JsonValue] = field(default_factory=dict)
    pr_urls: Sequence[str] = ()
    mend: str = ""

    @property
    def failed(self) -> bool:
        """Whether the step that waits for it has failed."""
        return self.status in ("incomplete", "failed", "cancelled")

    def as_json(self, task_id: str | None = None) -> dict[str, JsonValue]:
        """What later steps read as the step's result."""
        named: dict[str, JsonValue] = {} if task_id is None else {"id": task_id}
        if self.mend:
            named["mend"] = self.mend
        return {
            **named,
            "status": self.status,
            "ending": self.ending,
            "reason": self.reason,
            "final_message": self.final_message,
            "output": dict(self.output),
            "pr_urls": list(self.pr_urls),
        }


def task_result(
    ending: str,
    reason: str,
    message: str,
    output: Mapping[str, JsonValue],
    *,
    link: str = "",
    pr_urls: Sequence[str] = (),
    mend: str = "",
) -> TaskResult:
    """The result for an agent's ending. `link` leads to the whole text where the message has to be cut.

    What did not end by itself tells its reason before what there is of a text; a cancelled task tells nothing.
    """
    status = _STATUSES[ending]
    if status == "cancelled":
        return TaskResult(status, ending, reason, pr_urls=pr_urls)
    told = message
    if status != "completed":
        head = f"This task {'failed' if status == 'failed' else 'is incomplete'}: {_sentence(reason)}"
        head = f"{head}\n\nWhat mends it: {_sentence(mend)}" if mend else head
        told = f"{head}\n\n{message}" if message.strip() else head
    return TaskResult(status, ending, reason, cut_message(told, link), output, pr_urls, mend)


def _sentence(reason: str) -> str:
    """The reason with one full stop behind it."""
    text = reason.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def skipped(reason: str) -> TaskResult:
    """The result of a task that a quota refused: the person who waits for the message is told why."""
    return TaskResult("skipped", "skipped", reason, reason)


def skip_reason(result: object) -> str:
    """Why a step that asks for a task got none, from its result; empty for every other step."""
    if not isinstance(result, Mapping) or result.get("status") != "skipped" or "ending" not in result:
        return ""
    return str(result.get("reason", ""))


def cut_message(text: str, link: str = "", most: int = MOST_MESSAGE_BYTES) -> str:
    """The text in at most `most` bytes, with a marker and the link where it was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return text
    where = f"; the whole text: {link}" if link else ""
    marker = f"\n\n[truncated: {len(raw)} bytes{where}]"
    room = max(0, most - len(marker.encode()))
    return raw[:room].decode("utf-8", "ignore") + marker
