"""A message's whole text: what people read of its text, blocks and attachments.

Apps that raise alarms often leave `text` empty and put everything into attachments or blocks; what filters search
should hold it wherever it stands.
"""

import re
from collections.abc import Iterator
from itertools import islice

from loops.event import JsonValue
from triggers.slack.payload import Object, inner, items, text

MOST_CHARACTERS = 12_000
TRUNCATED = " [truncated]"

_MOST_PARTS = 2000
_NO_WORD = re.compile(r"[\W_]+")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_TEXT_BLOCKS = frozenset({"header", "section", "markdown"})


def message_text(message: Object) -> str:
    """Text, blocks and attachments as lines, each said once; at most 12,000 characters, the end marked if cut."""
    lines: list[str] = []
    size, said = 0, " "
    for part in islice(_parts(message), _MOST_PARTS):
        line = part.strip()[: MOST_CHARACTERS + 1]
        plain = _plain(line)
        # Clients repeat the text in a block, and attachments their text as a fallback.
        if not line or (plain and f" {plain} " in said):
            continue
        lines.append(line)
        said += f"{plain} "
        size += len(line) + 1
        if size > MOST_CHARACTERS + 1:
            break
    joined = "\n".join(lines)
    if len(joined) <= MOST_CHARACTERS:
        return joined
    return joined[: MOST_CHARACTERS - len(TRUNCATED)] + TRUNCATED


def _plain(line: str) -> str:
    """The words alone, which two ways to write the same have in common."""
    for entity, character in _ENTITIES:
        line = line.replace(entity, character)
    return _NO_WORD.sub(" ", line).strip()


def _parts(message: Object) -> Iterator[str]:
    yield text(message, "text") or ""
    for block in items(message, "blocks"):
        yield from _block(block)
    for attachment in items(message, "attachments"):
        yield from _attachment(attachment)


def _attachment(attachment: JsonValue) -> Iterator[str]:
    for key in ("pretext", "author_name", "title", "text"):
        yield text(attachment, key) or ""
    for field in items(attachment, "fields"):
        title, value = text(field, "title"), text(field, "value")
        yield f"{title}: {value}" if title and value else title or value or ""
    for block in items(attachment, "blocks"):
        yield from _block(block)
    for wrapped in items(attachment, "message_blocks"):
        for block in items(inner(wrapped, "message"), "blocks"):
            yield from _block(block)
    yield text(attachment, "fallback") or ""
    yield text(attachment, "footer") or ""


def _block(block: JsonValue) -> Iterator[str]:
    kind = text(block, "type")
    if kind == "rich_text":
        for element in items(block, "elements"):
            yield from _rich(element)
    elif kind in _TEXT_BLOCKS:
        yield _text_of(block)
        for field in items(block, "fields"):
            yield _text_object(field)
    elif kind == "context":
        yield " ".join(filter(None, (_text_object(element) for element in items(block, "elements"))))
    elif kind == "table":
        yield from _table(block)
    elif kind in {"image", "video"}:
        yield text(block, "alt_text") or ""
        yield _text_object(inner(block, "title"))


def _text_of(block: JsonValue) -> str:
    """Of a markdown block it is a text, of all others an object with one."""
    return text(block, "text") or _text_object(inner(block, "text"))


def _text_object(value: JsonValue) -> str:
    return text(value, "text") or text(value, "alt_text") or ""


def _table(block: JsonValue) -> Iterator[str]:
    for row in items(block, "rows"):
        cells = row if isinstance(row, list) else []
        yield " | ".join(_cell(cell) for cell in cells)


def _cell(cell: JsonValue) -> str:
    if text(cell, "type") == "rich_text":
        return " ".join(filter(None, (line for element in items(cell, "elements") for line in _rich(element))))
    return text(cell, "text") or ""


def _rich(element: JsonValue) -> Iterator[str]:
    """Lines of a part of a rich text; a list has one for each of its points."""
    if text(element, "type") == "rich_text_list":
        for point in items(element, "elements"):
            yield from _rich(point)
    else:
        yield "".join(_inline(piece) for piece in items(element, "elements"))


def _inline(piece: JsonValue) -> str:
    """As Slack writes it in a message's `text`."""
    match text(piece, "type"):
        case "text":
            return text(piece, "text") or ""
        case "link":
            url, label = text(piece, "url") or "", text(piece, "text")
            return f"<{url}|{label}>" if label else f"<{url}>"
        case "user":
            return f"<@{text(piece, 'user_id') or ''}>"
        case "channel":
            return f"<#{text(piece, 'channel_id') or ''}>"
        case "usergroup":
            return f"<!subteam^{text(piece, 'usergroup_id') or ''}>"
        case "broadcast":
            return f"<!{text(piece, 'range') or ''}>"
        case "emoji":
            return f":{text(piece, 'name') or ''}:"
        case "date":
            return text(piece, "fallback") or ""
        case _:
            return text(piece, "text") or ""
