"""What loops need of a connection, read from their stored definitions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loops.definition.inputs.base import connection_number
from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT
from loops.definition.stored import stored_actions, stored_trigger

_PEOPLE = frozenset({"U", "W"})


@dataclass(frozen=True, slots=True)
class SlackUse:
    """What one step of a loop, or its trigger, does over a Slack connection. `channel` is where it posts, empty where
    it posts nowhere or the event decides; `scopes` are what that takes, of which one alone where it is `any_of`."""

    loop: str
    channel: str = ""
    scopes: frozenset[str] = frozenset()
    any_of: bool = False


HEARS = frozenset({"channels:history", "groups:history", "im:history", "mpim:history"})
"""One of these lets the app hear messages."""
ANSWERS = frozenset({"chat:write", "reactions:write"})
"""What a task takes that answers in the thread of the message that started it."""
CREATE_TASK = "template-posthog-create-task"


def slack_uses(loop: str, definition: object, connection_id: int) -> Iterator[SlackUse]:
    """What a loop does over a Slack connection: its posts, and what it hears, which may come over any."""
    if SLACK_EVENT in _event_names(stored_trigger(definition)):
        yield SlackUse(loop, scopes=HEARS, any_of=True)
        if any(one.get("reply_in_slack_thread") is not False for one in stored_inputs(definition, CREATE_TASK)):
            yield SlackUse(loop, scopes=ANSWERS)
    for inputs in stored_inputs(definition, "template-slack"):
        if connection_number(inputs.get("slack_workspace")) == connection_id:
            channel = literal_channel(inputs.get("channel"))
            yield SlackUse(loop, channel, frozenset(_post_scopes(inputs, channel)))


def named_connections(definition: object) -> set[int]:
    """The connections that steps of a loop name: to send over, or as connectors of a task."""
    given = [inputs.get("slack_workspace") for inputs in stored_inputs(definition, "template-slack")]
    for inputs in stored_inputs(definition, "template-email"):
        mail = inputs.get("email")
        sender = mail.get("from") if isinstance(mail, Mapping) else None
        given.append(sender.get("integrationId") if isinstance(sender, Mapping) else None)
    for inputs in stored_inputs(definition, CREATE_TASK):
        connectors = inputs.get("connectors")
        given += connectors if isinstance(connectors, list) else []
    return {number for number in map(connection_number, given) if number is not None}


def needed_kinds(definition: object) -> set[str]:
    """The kinds of connection of which a loop needs one, whichever: to hear over, or to reach a repository."""
    heard = {"github": GITHUB_EVENT, "slack": SLACK_EVENT}
    names = _event_names(stored_trigger(definition))
    return {kind for kind, event in heard.items() if event in names} | ({"github"} if worked_on(definition) else set())


def worked_on(definition: object) -> set[str]:
    """The repositories that a loop's tasks work on."""
    named = (inputs.get("repository") for inputs in stored_inputs(definition, CREATE_TASK))
    return {one for one in named if isinstance(one, str) and one}


def stored_inputs(definition: object, template_id: str) -> Iterator[Mapping[str, Any]]:
    """The inputs of each action of this template, by name, as they are written."""
    for action in stored_actions(definition):
        config = action.get("config")
        if isinstance(config, Mapping) and config.get("template_id") == template_id:
            given = config.get("inputs")
            inputs = given.items() if isinstance(given, Mapping) else ()
            yield {name: one.get("value") for name, one in inputs if isinstance(one, Mapping)}


def literal_channel(value: object) -> str:
    """The channel that a step names; empty where a template decides, or none is named."""
    return "" if not isinstance(value, str) or "{" in value else value.split("|")[0].strip()


def _post_scopes(inputs: Mapping[str, Any], channel: str) -> Iterator[str]:
    yield "chat:write"
    if inputs.get("username") or inputs.get("icon_emoji"):
        yield "chat:write.customize"
    if channel[:1] in _PEOPLE and channel.isalnum() and channel.isupper():
        yield "im:write"


def _event_names(trigger: Mapping[str, Any]) -> Iterable[object]:
    filters = trigger.get("filters")
    events = filters.get("events") if isinstance(filters, Mapping) else None
    return [one.get("id") for one in events if isinstance(one, Mapping)] if isinstance(events, list) else []
