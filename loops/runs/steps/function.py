"""function: runs a function template, chosen by `template_id`."""

from collections.abc import Mapping

from loops.errors import StepUnavailable
from loops.event import JsonValue
from loops.runs.state import Wait
from loops.runs.step import FunctionTemplate, MockedOutcome, StepContext, StepOutcome


class FunctionStep:
    """Renders the inputs and hands them to the template's code."""

    def __init__(self, templates: Mapping[str, FunctionTemplate]) -> None:
        self._templates = templates

    async def run(self, context: StepContext) -> StepOutcome:
        return await self._template(context).run(context, context.render())

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        return await self._template(context).resume(context, wait, wake)

    async def mock(self, context: StepContext) -> MockedOutcome:
        return await self._template(context).mock(context, context.render())

    def _template(self, context: StepContext) -> FunctionTemplate:
        template_id: str = context.action.config.template_id
        template = self._templates.get(template_id)
        if template is None:
            raise StepUnavailable(
                f"{template_id} is not built in this release", hint="built are: " + ", ".join(sorted(self._templates))
            )
        return template
