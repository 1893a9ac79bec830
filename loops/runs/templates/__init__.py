"""The function templates that a run can carry out: one module and one line each."""

from collections.abc import Mapping

from loops.runs.step import FunctionTemplate
from loops.runs.templates.log import log

TEMPLATES: Mapping[str, FunctionTemplate] = {
    "template-log": log,
}

__all__ = ["TEMPLATES", "FunctionTemplate"]
