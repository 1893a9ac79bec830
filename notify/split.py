"""Long text in parts: nothing is lost, code fences are closed and opened again, no character is torn apart."""

import re
import unicodedata
from dataclasses import dataclass

FENCE = "```"
_OPEN = f"{FENCE}\n"
_CLOSE = f"\n{FENCE}"
_ATOM = re.compile(r"<[^<>\n]+>|&(?:amp|lt|gt);|`+|\r\n")
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_REGIONAL = range(0x1F1E6, 0x1F200)
_TAGS = range(0xE0020, 0xE0080)
_BEYOND_BASIC = 0xFFFF


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: `body` is taken from it as it stands; `text` is that with the fences it needs.

    The bodies of all pieces, joined, are the text.
    """

    body: str
    opened: bool = False
    closed: bool = False

    @property
    def text(self) -> str:
        """The body; a fence that was cut is opened before it, and closed after it."""
        end = "" if not self.closed else FENCE if self.body.endswith("\n") else _CLOSE
        return (_OPEN if self.opened else "") + self.body + end


def units(text: str) -> int:
    """The length of a text in UTF-16, which is how the strictest services count."""
    return len(text) + sum(ord(letter) > _BEYOND_BASIC for letter in text)


def split(text: str, limit: int) -> tuple[Piece, ...]:
    """Pieces whose `text` is at most `limit` long in UTF-16. They end where a paragraph, a line or a word does, and
    never inside a link, an entity or a character that is made of several."""
    room = limit - len(_OPEN) - len(_CLOSE)
    whole = _unbroken(text, room // 2)
    pieces: list[Piece] = []
    start, inside = 0, False
    while start < len(text):
        most = _reach(text, start, room)
        end = len(text) if most == len(text) else _cut(text, start, most, whole)
        end = _at_fence(text, start, end, inside=inside)
        within = inside ^ (text.count(FENCE, start, end) % 2 == 1)
        pieces.append(Piece(text[start:end], opened=inside, closed=within))
        start, inside = end, within
    return tuple(pieces)


def _reach(text: str, start: int, room: int) -> int:
    """The furthest index that lies within `room` of the start; one character at least."""
    end = min(len(text), start + room)
    while end - 1 > start and units(text[start:end]) > room:
        end -= max(1, (units(text[start:end]) - room) // 2)
    return max(end, start + 1)


def _cut(text: str, start: int, most: int, whole: bytearray) -> int:
    """The best index to cut at, in the second half of what fits if there is one."""
    least = start + (most - start) // 2
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, least, most)
        # A space in the label of a link is no place to cut.
        while found >= 0 and whole[found + len(mark)]:
            found = text.rfind(mark, least, found)
        if found >= 0:
            return found + len(mark)
    for index in range(most, start, -1):
        if not whole[index]:
            return index
    return most


def _at_fence(text: str, start: int, end: int, *, inside: bool) -> int:
    """Move a cut so that it leaves no empty code block on either side of it."""
    within = inside ^ (text.count(FENCE, start, end) % 2 == 1)
    if end == len(text) or not within:
        return end
    for mark in (FENCE, _CLOSE):  # a block that ends right here: the room to close it is kept for it
        after = end + len(mark)
        if text.startswith(mark, end) and not text.startswith("`", after) and not text.startswith("`", end - 1):
            return after
    for mark in (_OPEN, FENCE):  # a block that only just began: it goes to the next piece
        before = end - len(mark)
        if before > start and text.startswith(mark, before) and not text.startswith("`", before - 1):
            return before
    return end


def _unbroken(text: str, longest: int) -> bytearray:
    """Marks the indexes at which a cut would tear something apart; what is longer than `longest` is torn."""
    marks = bytearray(len(text) + 1)
    for found in _ATOM.finditer(text):
        if found.end() - found.start() <= longest:
            for index in range(found.start() + 1, found.end()):
                marks[index] = 1
    flags = 0
    for index in range(1, len(text)):
        before, letter = text[index - 1], text[index]
        flags = flags + 1 if ord(before) in _REGIONAL else 0
        paired = flags % 2 == 1 and ord(letter) in _REGIONAL
        if paired or before == _JOINER or _continues(letter):
            marks[index] = 1
    return marks


def _continues(letter: str) -> bool:
    """Whether a character belongs to the one before it."""
    if letter.isascii():
        return False
    code = ord(letter)
    joined = letter == _JOINER or code in _SKIN_TONES or code in _TAGS
    return joined or unicodedata.category(letter) in {"Mn", "Mc", "Me"}
