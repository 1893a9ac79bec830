"""exit: ends the run."""

from loops.runs.state import Ended, Outcome
from loops.runs.step import NeverParks, StepContext


class ExitStep(NeverParks):
    """Ends the run as completed, with the reason that the action gives."""

    async def run(self, context: StepContext) -> Outcome:
        return Ended(context.action.config.reason or "reached the exit")
