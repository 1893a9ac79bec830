"""template-log: records its text on the run and does nothing else."""

from collections.abc import Mapping

from loops.event import JsonValue
from loops.expressions import to_text
from loops.runs.state import Succeeded
from loops.runs.step import Mocked, NeverParks, StepContext


class LogTemplate(NeverParks):
    """Inputs: `text` (any value, shown as text). Result: {"text": …}."""

    async def run(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Succeeded:
        text = to_text(inputs.get("text"))
        context.log(text)
        return Succeeded({"text": text})

    async def mock(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Mocked:
        return Mocked(await self.run(context, inputs))
