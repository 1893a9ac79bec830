"""template-log: records its text on the run and does nothing else."""

from collections.abc import Mapping

from loops.event import JsonValue
from loops.expressions import to_text
from loops.runs.state import Outcome, Succeeded
from loops.runs.step import StepContext


async def log(context: StepContext, inputs: Mapping[str, JsonValue]) -> Outcome:
    """Inputs: `text` (any value, shown as text). Result: {"text": …}."""
    text = to_text(inputs.get("text"))
    context.log(text)
    return Succeeded({"text": text})
