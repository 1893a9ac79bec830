"""How a task ended, as it is stored."""

from loops.storable import storable, storable_text
from loops.store.tasks import TaskEnd
from loops.tasks.result import TaskResult, task_result

_DIED = "interrupted: its worker died again and again"


def end_of(
    task_id: str,
    result: TaskResult,
    rounds: int = 0,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cost: float | None = None,
) -> TaskEnd:
    """What is stored of a task that came to `result`."""
    told = storable(result.as_json(task_id))
    reason = storable_text(result.reason)
    return TaskEnd(
        result.status,
        result.ending,
        reason,
        told if isinstance(told, dict) else {},
        rounds,
        input_tokens,
        output_tokens,
        cost,
    )


def cancelled_end(task_id: str) -> TaskEnd:
    """The end of a task that was cancelled before anybody worked on it."""
    return end_of(task_id, task_result("cancelled", "cancelled on request", "", {}))


def died(
    task_id: str, rounds: int = 0, input_tokens: int = 0, output_tokens: int = 0, cost: float | None = None
) -> TaskEnd:
    """The end of what was taken up again and again, and never lived."""
    result = task_result("interrupted", _DIED, "", {})
    return end_of(task_id, result, rounds, input_tokens, output_tokens, cost)
