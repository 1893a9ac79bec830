"""Text that calls nobody, orders no bot about and is heard of nowhere else, wherever it stands on GitHub. Pure.

1. What could be spelled otherwise (entities, nested ones too) is spelled out first, until nothing changes any more.
2. Then a letter that nobody sees stands in what would act. Cleaned again, the text loses it, and is given it again.
3. What is code beyond doubt is left alone, so that it can be copied: nobody is called there. But a line of a block that
   is an order becomes none: bots read the text, and not what GitHub makes of it. What may become the message of a
   commit, where nothing is code, and every text with a doubt in it has the first two done to all of it.

`home` is the host of the GitHub that the text is for: issues there hear of links to them as those of github.com do.
"""

import html
import re
import string
from collections.abc import Callable, Sequence
from functools import lru_cache

from loops.agent.sanitise import sanitised
from loops.tasks.outputs.code import Code, certain_code

_GAP = "\u200b"
_PASSES = 8
_SPELLED = frozenset(string.ascii_letters + string.digits + "@#/.:-_")
_ENTITY = re.compile(r"&(?:#\d{1,7};?|#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};)")
_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
_MENTIONS = re.compile(r"(?<![A-Za-z0-9@])@+(?=[A-Za-z0-9])")
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\[\]()]+", re.IGNORECASE)
# An issue's number behind a space or a bracket is one of the repository itself.
_ELSEWHERE = re.compile(r"(?<=[^\s(\[*,;:\"'])#(?=\d)")
_ORDER = re.compile(r"^([^\w\n/<]*)/(?=[A-Za-z])", re.MULTILINE)
_ORDER_IN_BLOCK = re.compile(r"^([^\w\n/<]*)/(?=[A-Za-z][\w-]*(?:\s|$))", re.MULTILINE)
"""A command alone: a path in code has another slash."""
_PLACE = r"\\?/[^\s/<>\"()]{1,100}/[^\s/<>\"()]{1,200}/(?:issues|pull|pulls|discussions|commit)\\?/"
_HOST = re.compile(rf"(?<![\w.-])(?:www\\?\.)?github\\?\.com(?={_PLACE})", re.IGNORECASE)
_HELD = re.compile("\ue000([0-9]{1,6})\ue001")
_SKIP = re.compile(
    r"\[{1,9}\s{0,9}(skip[\s_-]{1,9}[a-z][\w-]{0,40}|no[\s_-]{1,9}ci|[a-z][\w-]{0,40}?[\s_-]{1,9}skip)\s{0,9}\]{1,9}"
    r"|\*{3}(NO_CI)\*{3}",
    re.IGNORECASE,
)
_CHECKS = re.compile(r"^[ \t>]*skip-checks[ \t]*:.*$", re.IGNORECASE | re.MULTILINE)
_TRAILER = re.compile(r"^([ \t>]*[a-z]+(?:-[a-z]+)*-by)(?:[ \t]*:)+[ \t]*", re.IGNORECASE | re.MULTILINE)


def inert(text: str, home: str = "") -> str:
    """A text that is shown as Markdown, as code or not: who is mentioned in it is not called."""
    return _gapped(_settled(text, lambda one: _spelled_out(one, home)))


def inert_around_code(text: str, home: str = "") -> str:
    """A text that is shown as Markdown and becomes nothing else: what is code in it is left alone."""
    clean = sanitised(text.strip()).strip()
    pieces = [(one, clean[one.start : one.end]) for one in certain_code(clean)]
    if not pieces or "\ue000" in clean:
        return inert(text, home)
    held = [_ORDER_IN_BLOCK.sub(rf"\1{_GAP}/", piece) if one.is_block else piece for one, piece in pieces]
    without = inert(_without(clean, [one for one, _ in pieces]), home)
    whole = _HELD.sub(lambda found: held[int(found[1])], without)
    # Code is left alone only where it is code still, with all that was done around it.
    kept = [whole[one.start : one.end] for one in certain_code(whole)]
    return whole if kept == held else inert(text, home)


def inert_plain(text: str, home: str = "") -> str:
    """A text that is shown as it is, such as a title: mentions are names in it."""
    return _gapped(_settled(text, lambda one: _MENTIONS.sub("", _spelled_out(one, home))))


def _without(text: str, code: Sequence[Code]) -> str:
    """The text with a number between two letters that no text has in place of each piece of code."""
    parts, at = [], 0
    for number, one in enumerate(code):
        parts.append(f"{text[at : one.start]}\ue000{number}\ue001")
        at = one.end
    return "".join([*parts, text[at:]])


def _settled(text: str, spell: Callable[[str], str]) -> str:
    for _ in range(_PASSES):
        before, text = text, spell(sanitised(text))
        if text == before:
            return text
    # What is not settled by now was nested on purpose.
    plain = text.translate(str.maketrans("&[]@", "+() "))
    return spell(sanitised(plain))


def _spelled_out(text: str, home: str) -> str:
    text = _ENTITY.sub(_letter, text)
    text = _ADDRESS.sub(lambda found: _MENTION.sub("%40", found[0]), text)
    # Issues are told of those who link to them, but not of those who link to this.
    text = _HOST.sub("redirect.github.com", text)
    if home:
        # No other GitHub has such a host. A digit that is written otherwise leads to the same place.
        text = _links_within(home).sub(lambda found: f"{found[1]}%{ord(found[2]):02X}", text)
    text = _SKIP.sub(lambda found: f"({found[1]})" if found[1] else found[2], text)
    return _TRAILER.sub(r"\1 ", _CHECKS.sub("", text)).strip()


@lru_cache(maxsize=64)
def _links_within(home: str) -> "re.Pattern[str]":
    """Addresses of what hears of links to it, on another GitHub than github.com, and how its number begins."""
    host = re.escape(home).replace(r"\.", r"\\?\.").replace(":", r"\\?:")
    return re.compile(rf"((?<![\w.-])(?:www\\?\.)?{host}{_PLACE})([0-9a-z])", re.IGNORECASE)


def _letter(entity: "re.Match[str]") -> str:
    letter = html.unescape(entity[0])
    return letter if letter in _SPELLED else entity[0]


def _gapped(text: str) -> str:
    text = _MENTION.sub(f"@{_GAP}", text)
    text = _ELSEWHERE.sub(f"#{_GAP}", text)
    return _ORDER.sub(rf"\1{_GAP}/", text)
