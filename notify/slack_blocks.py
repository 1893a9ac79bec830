"""A message as Slack is asked to post it: parts of at most four sections of text, or fifty blocks of the writer's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.event import JsonValue
from notify.markdown import to_mrkdwn
from notify.message import Message
from notify.mrkdwn import from_mrkdwn, from_plain
from notify.split import split

SECTION_LIMIT = 3000
SECTIONS_A_PART = 4
MOST_BLOCKS = 50
_PINGS = {"user": "user_id", "usergroup": "usergroup_id", "broadcast": "range"}
_TOKENS = {"user": "<@{}>", "usergroup": "<!subteam^{}>", "broadcast": "<!{}>"}


@dataclass(frozen=True, slots=True)
class Part:
    """One message in Slack. `text` is what a notification shows, and all there is where the blocks are empty."""

    text: str
    blocks: tuple[Mapping[str, Any], ...]


def parts(message: Message) -> tuple[Part, ...]:
    """What is posted, in order; none when the message says nothing."""
    if message.blocks:
        return _of_blocks(message)
    sections = [text for piece in split(_mrkdwn(message), SECTION_LIMIT) if (text := piece.text).strip()]
    groups = [sections[start : start + SECTIONS_A_PART] for start in range(0, len(sections), SECTIONS_A_PART)]
    return tuple(Part(group[0], tuple(_section(text) for text in group)) for group in groups)


def _mrkdwn(message: Message) -> str:
    if message.format == "markdown":
        return to_mrkdwn(message.text, message.mentions)
    return from_mrkdwn(message.text, message.mentions) if message.format == "mrkdwn" else from_plain(message.text)


def _section(text: str) -> dict[str, Any]:
    # Verbatim: Slack makes nothing of a bare @here or #general. Expand: it folds no section away.
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}, "expand": True}


def _of_blocks(message: Message) -> tuple[Part, ...]:
    safe = [_inert(block, message.mentions) for block in message.blocks]
    blocks = [block for block in safe if isinstance(block, dict)]
    first = next((piece.text for piece in split(_mrkdwn(message), SECTION_LIMIT)), "")
    groups = [blocks[start : start + MOST_BLOCKS] for start in range(0, len(blocks), MOST_BLOCKS)]
    return tuple(Part(first, tuple(group)) for group in groups)


def _inert(value: JsonValue, mentions: frozenset[str]) -> JsonValue:
    """A writer's block in which nothing pings but what may."""
    if isinstance(value, list):
        return [_inert(one, mentions) for one in value]
    if not isinstance(value, dict):
        return value
    kind, text = value.get("type"), value.get("text")
    if kind == "mrkdwn" and isinstance(text, str):
        return {**value, "text": from_mrkdwn(text, mentions), "verbatim": True}
    if kind == "markdown" and isinstance(text, str):
        # Slack's own Markdown block would resolve mentions: it becomes text that we have looked through.
        return _section(split(to_mrkdwn(text, mentions), SECTION_LIMIT)[0].text) if text.strip() else value
    if isinstance(kind, str) and kind in _PINGS:
        token = _TOKENS[kind].format(value.get(_PINGS[kind]))
        return value if token in mentions else {"type": "text", "text": token}
    return {name: _inert(one, mentions) for name, one in value.items()}


def faults(blocks: Sequence[JsonValue]) -> str:
    """Why these cannot be blocks at all; empty when Slack may be asked."""
    for number, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"blocks[{number}] is no block: it must be an object with a type"
    return ""
