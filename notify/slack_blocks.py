"""A message as Slack is asked to post it: parts of at most four sections of text, or fifty blocks of the writer's.

A message is at most twenty parts. What is beyond them is left out, and the last part says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from loops.event import JsonValue
from notify.markdown import to_mrkdwn
from notify.message import Message
from notify.mrkdwn import from_mrkdwn, from_plain, link
from notify.split import Piece, split

SECTION_LIMIT = 3000
SECTIONS_A_PART = 4
MOST_BLOCKS = 50
MOST_PARTS = 20
# One place of the last part is kept for the words that it was cut.
_MOST_SECTIONS = MOST_PARTS * SECTIONS_A_PART - 1
_MOST_BLOCKS_IN_ALL = MOST_PARTS * MOST_BLOCKS - 1
# What a cut depends on lies within two sections behind it.
_MOST_LOOKED_AT = (_MOST_SECTIONS + 3) * SECTION_LIMIT
_PINGS = {"user": "user_id", "usergroup": "usergroup_id", "broadcast": "range"}
_TOKENS = {"user": "<@{}>", "usergroup": "<!subteam^{}>", "broadcast": "<!{}>"}


@dataclass(frozen=True, slots=True)
class Part:
    """One message in Slack. `text` is what a notification shows, and all there is where the blocks are empty. `kept`
    is how much of a message that is cut its parts hold, in words: empty unless it ends here."""

    text: str
    blocks: tuple[Mapping[str, Any], ...]
    kept: str = ""

    def with_whole_at(self, page: str) -> "Part":
        """What is posted: a message that is cut says so at its end, and that the whole stands on `page`."""
        if not self.kept:
            return self
        told = f"_This message is cut here: {MOST_PARTS} posts hold {self.kept}. The whole:_ {link(page)}"
        return replace(self, blocks=(*self.blocks, _section(told)))


def parts(message: Message) -> tuple[Part, ...]:
    """What is posted, in order; none when the message says nothing."""
    if message.blocks:
        return _of_blocks(message)
    text = _mrkdwn(message)
    pieces, end = _pieces(text)
    sections = [piece.text for piece in pieces]
    groups = [sections[start : start + SECTIONS_A_PART] for start in range(0, len(sections), SECTIONS_A_PART)]
    made = [Part(group[0], tuple(map(_section, group))) for group in groups]
    return _ending(made, f"{end:,} of its {len(text):,} characters" if text[end:].strip() else "")


def _pieces(text: str) -> tuple[list[Piece], int]:
    """What fits into a message, without the pieces that say nothing; and where in the text it ends."""
    blank = len(text) - len(text.lstrip())
    start = blank if blank > SECTION_LIMIT else 0
    pieces: list[Piece] = []
    end = start
    for piece in split(text[start : start + _MOST_LOOKED_AT], SECTION_LIMIT):
        if len(pieces) == _MOST_SECTIONS:
            break
        end += len(piece.body)
        if piece.text.strip():
            pieces.append(piece)
    return pieces, end


def _ending(parts: list[Part], kept: str) -> tuple[Part, ...]:
    return (*parts[:-1], replace(parts[-1], kept=kept)) if parts else ()


def _mrkdwn(message: Message) -> str:
    if message.format == "markdown":
        return to_mrkdwn(message.text, message.mentions)
    return from_mrkdwn(message.text, message.mentions) if message.format == "mrkdwn" else from_plain(message.text)


def _section(text: str) -> dict[str, Any]:
    # Verbatim: Slack makes nothing of a bare @here or #general. Expand: it folds no section away.
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}, "expand": True}


def _of_blocks(message: Message) -> tuple[Part, ...]:
    made = _blocks(message)
    blocks = list(islice(made, _MOST_BLOCKS_IN_ALL))
    left = sum(1 for _block in made)
    first = next((piece.text for piece in _pieces(_mrkdwn(message))[0]), "")
    groups = [blocks[start : start + MOST_BLOCKS] for start in range(0, len(blocks), MOST_BLOCKS)]
    kept = f"{len(blocks):,} of its {len(blocks) + left:,} blocks" if left else ""
    return _ending([Part(first, tuple(group)) for group in groups], kept)


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    """The writer's blocks, made safe; of Slack's own Markdown block, which may be longer than a section, several."""
    for block in message.blocks:
        if isinstance(block, dict) and block.get("type") == "markdown" and isinstance(block.get("text"), str):
            text = to_mrkdwn(str(block["text"]), message.mentions)
            yield from (_section(piece.text) for piece in split(text, SECTION_LIMIT) if piece.text.strip())
        elif isinstance(safe := _inert(block, message.mentions), dict):
            yield safe


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
