"""The action types that a run can execute: one module and one line each."""

from collections.abc import Mapping

from loops.runs.step import Step, StepContext
from loops.runs.steps.delay import DelayStep
from loops.runs.steps.exit import ExitStep
from loops.runs.steps.function import FunctionStep
from loops.runs.templates import TEMPLATES

STEPS: Mapping[str, Step] = {
    "function": FunctionStep(TEMPLATES),
    "function_email": FunctionStep(TEMPLATES),
    "delay": DelayStep(),
    "exit": ExitStep(),
}

__all__ = ["STEPS", "Step", "StepContext"]
