"""The action types that a run can execute: one module and one line each."""

from collections.abc import Mapping

from loops.runs.step import Step, StepContext, WholeStep
from loops.runs.steps.delay import DelayStep
from loops.runs.steps.exit import ExitStep
from loops.runs.steps.function import FunctionStep
from loops.runs.templates import Outside, make_templates


def make_steps(outside: Outside) -> Mapping[str, WholeStep]:
    """The steps over what they need from outside."""
    templates = make_templates(outside)
    return {
        "function": FunctionStep(templates),
        "function_email": FunctionStep(templates),
        "delay": DelayStep(),
        "exit": ExitStep(),
    }


__all__ = ["Outside", "Step", "StepContext", "make_steps"]
