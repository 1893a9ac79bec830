"""Letters that nobody sees: zero-width ones, marks that turn the direction of text, tags, controls.

They carry hidden text past a reader, or make a word look like another. What words and emoji fall apart without stays: a
joiner between letters outside ASCII, a variation selector behind what it selects for, and the three flags that are
spelled with tags. Never more than one of each at a place, since rows of them spell text too.
"""

import re

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_JOINERS = frozenset("\u200c\u200d")
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
_IDEOGRAPH_SELECTORS = frozenset(map(chr, range(0xE0100, 0xE01F0)))
_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_FLAG = "\U0001f3f4"
_FLAGS = re.compile("\U000e0067\U000e0062(?:\U000e0065\U000e006e|\U000e0073\U000e0063|\U000e0077\U000e006c).\U000e007f")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)


def without_invisible(text: str) -> str:
    """The text without letters that cannot be seen; every kind of line break becomes a line feed."""
    broken = _BREAKS.sub("\n", text)
    return _UNSEEN.sub(lambda found: _needed(broken, found.start(), found.end()), broken)


def with_invisible_escaped(json_text: str) -> str:
    """JSON with escapes, which mean the same, in place of letters that cannot be seen and of odd line breaks."""
    shown = _BREAKS.sub(lambda found: _escapes(found[0]), json_text)
    return _UNSEEN.sub(lambda found: _kept_or_escaped(shown, found), shown)


def _kept_or_escaped(text: str, found: re.Match[str]) -> str:
    return found[0] if _needed(text, found.start(), found.end()) == found[0] else _escapes(found[0])


def _escapes(letters: str) -> str:
    units = letters.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _needed(text: str, start: int, end: int) -> str:
    """What of the unseen letters from `start` to `end` the visible ones around them need."""
    before, run, after = text[start - 1 : start], text[start:end], text[end : end + 1]
    if before == _FLAG and (flag := _FLAGS.match(run)):
        return flag[0]
    selector = run[0] if _selects(before, run[0]) else ""
    joins = _joinable(before) and _joinable(after)
    return selector + (next((letter for letter in run if letter in _JOINERS), "") if joins else "")


def _selects(before: str, letter: str) -> bool:
    if letter in _IDEOGRAPH_SELECTORS:
        return _IDEOGRAPH.fullmatch(before) is not None
    return letter in _SELECTORS and (_joinable(before) or (before != "" and before in "#*0123456789"))


def _joinable(letter: str) -> bool:
    return letter != "" and not letter.isascii() and not letter.isspace()
