"""The function templates that a workflow may name: one module and one line each."""

from collections.abc import Mapping

from loops.definition.inputs.base import Inputs, Templated, templated
from loops.definition.inputs.create_task import CreateTaskInputs
from loops.definition.inputs.email import EmailInputs
from loops.definition.inputs.log import LogInputs
from loops.definition.inputs.slack import SlackInputs
from loops.definition.inputs.source_webhook import ManualInputs, WebhookInputs

FUNCTIONS: Mapping[str, type[Inputs]] = {
    "template-posthog-create-task": CreateTaskInputs,
    "template-slack": SlackInputs,
    "template-email": EmailInputs,
    "template-log": LogInputs,
}
# The inputs of triggers that a request starts, by trigger type.
SOURCES: Mapping[str, type[Inputs]] = {"webhook": WebhookInputs, "manual": ManualInputs}

__all__ = ["FUNCTIONS", "SOURCES", "Inputs", "Templated", "templated"]
