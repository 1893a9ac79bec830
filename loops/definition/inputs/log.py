"""template-log: a line on the run's trace."""

from loops.definition.inputs.base import HogText, Inputs


class LogInputs(Inputs):
    """`text` may be one expression, whose value is then shown as text."""

    text: HogText
