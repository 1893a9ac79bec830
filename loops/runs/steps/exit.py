"""exit: ends the run."""

from loops.runs.state import Ended
from loops.runs.step import Mocked, NeverParks, StepContext


class ExitStep(NeverParks):
    """Ends the run as completed, with the reason that the action gives."""

    async def run(self, context: StepContext) -> Ended:
        return Ended(context.action.config.reason or "reached the exit")

    async def mock(self, context: StepContext) -> Mocked:
        return Mocked(await self.run(context))
