"""Messages that would not arrive, or arrive twice."""

from collections.abc import Iterator

from loops.definition.findings import join, shown
from loops.definition.inputs.base import connection_number
from loops.definition.lint_subject import MESSAGES, TASK, Subject
from loops.definition.schema.actions import FunctionConfig
from loops.definition.schema.triggers import SLACK_EVENT
from loops.definition.workflow import Workflow
from loops.errors import Fault


def channels_of(workflow: Workflow) -> set[tuple[int, str]]:
    """The channels that its steps name, each with the connection that posts to it: what Outside may be asked about."""
    return {(number, channel) for _path, number, channel in _channels(Subject(workflow))}


def app_outside(subject: Subject) -> Iterator[Fault]:
    """A channel that nothing can be posted to."""
    for path, number, channel in _channels(subject):
        told = subject.outside.channels.get((number, channel))
        if told is not None:
            yield Fault(path, f"{told[0]}: nothing can be posted there", told[1])


def _channels(subject: Subject) -> Iterator[tuple[str, int, str]]:
    for path, _action, config in subject.steps("template-slack"):
        workspace, channel = config.inputs.get("slack_workspace"), config.inputs.get("channel")
        number = connection_number(workspace and workspace.value)
        if number is not None and channel is not None and isinstance(channel.value, str) and "{" not in channel.value:
            yield join(path, "channel"), number, channel.value.split("|")[0].strip()


def two_messages(subject: Subject) -> Iterator[Fault]:
    """A result that goes to the thread of its event, and again by a step."""
    if not subject.of(SLACK_EVENT):
        return
    for path, action, config in subject.steps(TASK):
        given = config.inputs.get("reply_in_slack_thread")
        told = None if given is not None and given.value is False else _told_after(subject.workflow, action.id)
        if told is not None:
            yield Fault(
                join(path, "reply_in_slack_thread"),
                f'the result goes to the thread that started the run, and again by "{shown(told)}": two messages',
                "set it to false, or remove the step; left out it counts as true",
            )


def _told_after(workflow: Workflow, action_id: str) -> str | None:
    following, seen = workflow.next_action(action_id), set[str]()
    while following is not None and following not in seen:
        config = workflow.action(following).config
        if isinstance(config, FunctionConfig) and config.template_id in MESSAGES:
            return following
        seen.add(following)
        following = workflow.next_action(following)
    return None
