"""Old tool results leave the conversation when it grows too long; every call keeps a result."""

from collections.abc import Sequence
from dataclasses import replace

from loops.agent.transcript import Message, ToolReturn

ELIDED = '{"elided": "this older result was removed to save room; call the tool again if it is needed"}'


def elided(messages: Sequence[Message], keep: int) -> tuple[Message, ...]:
    """The messages with every longer result before the last `keep` messages replaced by a stub."""
    edge = max(0, len(messages) - keep)
    return tuple(
        replace(message, text=ELIDED)
        if index < edge and isinstance(message, ToolReturn) and len(message.text) > len(ELIDED)
        else message
        for index, message in enumerate(messages)
    )
