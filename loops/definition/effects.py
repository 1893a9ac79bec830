"""Which actions of a workflow may change something outside, so that events of unknown senders start only the others.

What is not known to be harmless counts as writing: a new kind of action has to be entered here on purpose. The notes of
an agent are the loop's own: nothing outside changes by them.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from loops.definition.schema.actions import Action, FunctionConfig
from loops.definition.schema.parts import Input

HARMLESS_ACTIONS = frozenset({"trigger", "delay", "exit"})
"""They change nothing outside."""


class _Effect(Protocol):
    def __call__(self, inputs: Mapping[str, Input]) -> str | None: ...


def _none(inputs: Mapping[str, Input]) -> str | None:  # noqa: ARG001 - one shape for all
    return None


def _task_effect(inputs: Mapping[str, Input]) -> str | None:
    repository, scopes = (_literal(inputs, name) for name in ("repository", "posthog_mcp_scopes"))
    if repository:
        return f"its task works on the repository {repository}"
    if scopes not in (None, "", "read_only"):
        return f"its task has the scopes {scopes}"
    return None


def _slack_effect(inputs: Mapping[str, Input]) -> str | None:
    """A message reports, as long as it is not the event that says to whom."""
    return "the event may choose its channel" if "{" in str(_literal(inputs, "channel")) else None


def _email_effect(inputs: Mapping[str, Input]) -> str | None:
    mail = _literal(inputs, "email")
    to = [mail.get(name) for name in ("to", "cc", "bcc")] if isinstance(mail, Mapping) else []
    chosen = any("{" in json.dumps(one).strip("{}") for one in to)
    return "the event may choose its recipient" if chosen else None


_TEMPLATES: Mapping[str, _Effect] = MappingProxyType(
    {
        "template-log": _none,
        "template-slack": _slack_effect,
        "template-email": _email_effect,
        "template-posthog-create-task": _task_effect,
    }
)


def written_by(action: Action) -> str | None:
    """What the action may change outside, in words; None where it only reads and reports."""
    if action.type in HARMLESS_ACTIONS:
        return None
    config = action.config
    if isinstance(config, FunctionConfig):
        effect = _TEMPLATES.get(config.template_id)
        told = effect(config.inputs) if effect is not None else f"{config.template_id} may write"
    else:
        told = f"an action of type {action.type} may write"
    return None if told is None else f"{action.id}: {told}"


def _literal(inputs: Mapping[str, Input], name: str) -> object:
    return inputs[name].value if name in inputs else None
