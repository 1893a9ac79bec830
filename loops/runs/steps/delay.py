"""delay: waits for a span, counted from the moment the step began."""

from collections.abc import Mapping

from loops.event import JsonValue
from loops.runs.state import Outcome, Parked, Succeeded, Wait
from loops.runs.step import Mocked, StepContext


class DelayStep:
    """Parks the run until the span is over, or until a person resumes it earlier."""

    async def run(self, context: StepContext) -> Outcome:
        span = context.action.config.span
        context.log(f"waiting {context.action.config.delay_duration}")
        return Parked(Wait("timer", context.now + span))

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> Outcome:
        early = wake is not None
        context.log("resumed before its time" if early else "the time is over")
        return Succeeded({"until": wait.deadline.isoformat(), "resumed_early": early})

    async def mock(self, context: StepContext) -> Mocked:
        until = context.now + context.action.config.span
        context.log(f"would wait {context.action.config.delay_duration}")
        return Mocked(Succeeded({"until": until.isoformat(), "resumed_early": False}))
