"""function: runs a function template, chosen by `template_id`."""

from collections.abc import Mapping

from loops.definition.not_yet import not_built
from loops.errors import StepUnavailable
from loops.runs.state import Outcome
from loops.runs.step import FunctionTemplate, NeverParks, StepContext


class FunctionStep(NeverParks):
    """Renders the inputs and hands them to the template's code."""

    def __init__(self, templates: Mapping[str, FunctionTemplate]) -> None:
        self._templates = templates

    async def run(self, context: StepContext) -> Outcome:
        template_id: str = context.action.config.template_id
        template = self._templates.get(template_id)
        if template is None:
            raise StepUnavailable(not_built(template_id), hint="built are: " + ", ".join(sorted(self._templates)))
        return await template(context, context.render())
