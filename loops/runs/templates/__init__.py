"""The function templates that a run can carry out: one module and one line each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loops.ports import Messages
from loops.runs.step import FunctionTemplate
from loops.runs.templates.create_task import CreateTask
from loops.runs.templates.log import LogTemplate
from loops.runs.templates.message import MessageTemplate
from loops.tasks.service import TaskService


@dataclass(frozen=True, slots=True)
class Outside:
    """What templates work with beyond their run."""

    messages: Messages
    tasks: TaskService


TEMPLATES: Mapping[str, Callable[[Outside], FunctionTemplate]] = {
    "template-log": lambda _outside: LogTemplate(),
    "template-posthog-create-task": lambda outside: CreateTask(outside.tasks),
    "template-slack": lambda outside: MessageTemplate("slack", outside.messages),
    "template-email": lambda outside: MessageTemplate("email", outside.messages),
}


def make_templates(outside: Outside) -> Mapping[str, FunctionTemplate]:
    """Every template, ready to act."""
    return {name: make(outside) for name, make in TEMPLATES.items()}


__all__ = ["TEMPLATES", "Outside", "make_templates"]
