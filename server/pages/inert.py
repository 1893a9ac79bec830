"""Foreign text made fit to be looked at: what would act or hide is shown, what is long is cut.

HTML is no matter here: every template escapes. This is about what escaping leaves alone: terminal sequences, marks that
turn the direction of text, characters that cannot be seen.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs

from loops.event import JsonValue

MOST_BODY = 200_000
_MOST_CHECKED = 2_000_000

# C0 and C1 without tab and line feed, soft hyphen, marks of direction, zero-width space and joiners of words, line and
# paragraph separators, lone surrogates, tags, and variation selectors that select nothing: hidden text. The joiners
# of emoji and scripts (U+200C, U+200D) and a selector behind an ideograph are left: real words fall apart without them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    "|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
_PIECE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_SPACES = "  "


@dataclass(frozen=True, slots=True)
class Shown:
    """Text for a page: `size` is how many bytes or characters the whole has, `is_cut` whether this is less, `is_brief`
    whether it fits on a line."""

    text: str
    size: int
    is_cut: bool
    is_json: bool = False
    is_brief: bool = False


def visible(text: str) -> str:
    """The text with every character that acts or cannot be seen written out, as `\\x1b` or `\\u202e`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), _lines(text))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def shown_value(value: JsonValue, most: int) -> Shown:
    """A value as indented JSON of at most `most` characters; a plain text as itself."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return Shown(text[:most], len(text), len(text) > most, is_json=not isinstance(value, str))


def shown_body(body: bytes, content_type: str) -> Shown:
    """A delivery's body: JSON laid out, also where it stands in the `payload` field of a form; else as it is."""
    text = body.decode("utf-8", "replace")
    document = _document(text, content_type)
    if document is None:
        return Shown(text[:MOST_BODY], len(body), len(text) > MOST_BODY)
    laid_out, is_cut = laid_out_json(document, MOST_BODY)
    return Shown(laid_out, len(body), is_cut, is_json=True)


def _document(text: str, content_type: str) -> str | None:
    """The JSON document in a body; None where there is none, or where it is too long to be checked for a page."""
    if len(text) > _MOST_CHECKED:
        return None
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        try:
            text = parse_qs(text, max_num_fields=100).get("payload", [""])[0]
        except ValueError:
            return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


def laid_out_json(document: str, most: int) -> tuple[str, bool]:
    """Valid JSON with line breaks and indents, and whether it was cut at `most` characters.

    Only white space is changed. Parsing and writing it again would drop repeated keys and round numbers, and what is
    looked for here is what really came.
    """
    parts: list[str] = []
    length = 0
    for part in _laid_out(document):
        parts.append(part)
        length += len(part)
        if length > most:
            return "".join(parts)[:most], True
    return "".join(parts), False


def _laid_out(document: str) -> Iterator[str]:
    depth, before = 0, ""
    for found in _PIECE.finditer(document):
        piece = found[0]
        if piece in "]}":
            depth -= 1
            if before not in "[{":
                yield f"\n{_SPACES * depth}"
        elif before and before in "[{":
            yield f"\n{_SPACES * depth}"
        yield piece
        if piece in "[{":
            depth += 1
        elif piece == ",":
            yield f"\n{_SPACES * depth}"
        elif piece == ":":
            yield " "
        before = piece
