"""template-log: a line on the run's trace."""

from typing import Literal

from loops.definition.inputs.base import HogText, Inputs


class LogInputs(Inputs):
    """`text` may be one expression, whose value is then shown as text."""

    text: HogText
    level: Literal["info", "warning"] = "info"
