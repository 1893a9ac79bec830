"""template-slack: a message to a channel or thread."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, JsonValue

from loops.definition.findings import Findings, join
from loops.definition.inputs.base import ConnectionId, HogJson, HogText, Inputs, Templated, Text


def _channel(text: str) -> str:
    """The id alone of what a picker stores (`C123|#name`)."""
    return text if "{" in text else text.split("|")[0].strip()


class SlackInputs(Inputs):
    """`slack_workspace` is the id of a Slack connection."""

    slack_workspace: ConnectionId
    channel: Annotated[Text, AfterValidator(_channel), Templated()]
    text: HogText | None = None
    blocks: HogJson = None
    thread_ts: HogText | None = None
    username: HogText | None = None
    icon_emoji: HogText | None = None

    @classmethod
    def lacking(cls, values: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
        super().lacking(values, path, findings)
        if not values.get("text") and not values.get("blocks"):
            findings.refuse(join(path, "text"), "text or blocks is required: the message would be empty")
