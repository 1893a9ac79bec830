"""Text that calls nobody, orders no bot about and is heard of nowhere else, wherever it stands on GitHub. Pure.

1. It is not asked what is code: what GitHub takes for code, a bot need not, and who wrote the text may know better.
2. What could be spelled otherwise (entities, nested ones too) is spelled out first, until nothing changes any more.
3. Then a letter that nobody sees stands in what would act. Cleaned again, the text loses it, and is given it again.
"""

import html
import re
import string
from collections.abc import Callable

from loops.agent.sanitise import sanitised

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
_HOST = re.compile(
    r"(?<![\w.-])(?:www\\?\.)?github\\?\.com"
    r"(?=\\?/[^\s/<>\"()]{1,100}/[^\s/<>\"()]{1,200}/(?:issues|pull|pulls|discussions|commit)\\?/)",
    re.IGNORECASE,
)
_SKIP = re.compile(
    r"\[{1,9}\s{0,9}(skip[\s_-]{1,9}[a-z][\w-]{0,40}|no[\s_-]{1,9}ci|[a-z][\w-]{0,40}?[\s_-]{1,9}skip)\s{0,9}\]{1,9}"
    r"|\*{3}(NO_CI)\*{3}",
    re.IGNORECASE,
)
_CHECKS = re.compile(r"^[ \t>]*skip-checks[ \t]*:.*$", re.IGNORECASE | re.MULTILINE)
_TRAILER = re.compile(r"^([ \t>]*[a-z]+(?:-[a-z]+)*-by)(?:[ \t]*:)+[ \t]*", re.IGNORECASE | re.MULTILINE)


def inert(text: str) -> str:
    """A text that is shown as Markdown: who is mentioned in it is not called."""
    return _gapped(_settled(text, _spelled_out))


def inert_plain(text: str) -> str:
    """A text that is shown as it is, such as a title: mentions are names in it."""
    return _gapped(_settled(text, lambda one: _MENTIONS.sub("", _spelled_out(one))))


def _settled(text: str, spell: Callable[[str], str]) -> str:
    for _ in range(_PASSES):
        before, text = text, spell(sanitised(text))
        if text == before:
            return text
    # What is not settled by now was nested on purpose.
    plain = text.translate(str.maketrans("&[]@", "+() "))
    return spell(sanitised(plain))


def _spelled_out(text: str) -> str:
    text = _ENTITY.sub(_letter, text)
    text = _ADDRESS.sub(lambda found: _MENTION.sub("%40", found[0]), text)
    # Issues are told of those who link to them, but not of those who link to this.
    text = _HOST.sub("redirect.github.com", text)
    text = _SKIP.sub(lambda found: f"({found[1]})" if found[1] else found[2], text)
    return _TRAILER.sub(r"\1 ", _CHECKS.sub("", text)).strip()


def _letter(entity: "re.Match[str]") -> str:
    letter = html.unescape(entity[0])
    return letter if letter in _SPELLED else entity[0]


def _gapped(text: str) -> str:
    text = _MENTION.sub(f"@{_GAP}", text)
    text = _ELSEWHERE.sub(f"#{_GAP}", text)
    return _ORDER.sub(rf"\1{_GAP}/", text)
