"""Markdown, as agents write it, drawn as a reader in Slack would see it: made of what leaves for Slack.

All text is escaped, and nothing acts: of a link its words are shown with the address that it leads to.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType

from markupsafe import Markup, escape

from notify.markdown import to_mrkdwn
from server.pages.inert import visible

MOST_DRAWN = 20_000
"""Of how many characters a text is drawn; a longer one is shown as it is written."""
_KEPT = 128

_BLOCK = re.compile(r"^```\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(
    r"`(?P<code>[^`\n]{1,1100})`"
    r"|<(?P<to>[^<>|\n]{1,2100})(?:\|(?P<label>[^<>\n]{0,1500}))?>"
    r"|(?<![\w*])\*(?P<strong>(?=\S)[^*\n]{1,600}(?<=\S))\*(?![\w*])"
    r"|(?<!\w)_(?P<em>(?=[^\s_])[^\n]{0,600}?(?<=\S))_(?!\w)"
    r"|(?<![\w~])~(?P<s>(?=\S)[^~\n]{1,600}(?<=\S))~(?![\w~])"
)
_STYLES: Mapping[str, Markup] = MappingProxyType(
    {
        "strong": Markup("<strong>{}</strong>"),
        "em": Markup("<em>{}</em>"),
        "s": Markup("<s>{}</s>"),
    }
)


@lru_cache(maxsize=_KEPT)
def drawn(text: str, mentions: frozenset[str] = frozenset()) -> Markup | None:
    """The text for a page; None where it is too long to be drawn. `mentions` are those that ping in Slack."""
    if len(text) > MOST_DRAWN:
        return None
    parts = _BLOCK.split(to_mrkdwn(visible(text), mentions))
    return Markup("").join(
        Markup("<pre><code>{}</code></pre>").format(_plain(part)) if number % 2 else Markup("").join(_prose(part))
        for number, part in enumerate(parts)
    )


def _prose(text: str) -> Iterator[Markup]:
    """Paragraphs, and what is quoted."""
    for kind, lines in groupby(text.split("\n"), _kind):
        said = Markup("\n").join(_inline(line.lstrip("> ") if kind == "quote" else line) for line in lines)
        if kind == "quote":
            yield Markup('<blockquote dir="auto">{}</blockquote>').format(said)
        elif kind == "text":
            yield Markup('<p dir="auto">{}</p>').format(said)


def _kind(line: str) -> str:
    # An angle bracket that is no quote is escaped by now.
    return "quote" if line.startswith(">") else "text" if line.strip() else "blank"


def _inline(text: str) -> Markup:
    pieces: list[Markup] = []
    at = 0
    for found in _MARK.finditer(text):
        pieces += [escape(_plain(text[at : found.start()])), _marked(found)]
        at = found.end()
    return Markup("").join([*pieces, escape(_plain(text[at:]))])


def _marked(found: "re.Match[str]") -> Markup:
    if found["code"] is not None:
        return Markup("<code>{}</code>").format(_plain(found["code"]))
    if found["to"] is not None:
        address = Markup('<span class="address">{}</span>').format(found["to"])
        return Markup("{} ({})").format(_inline(found["label"]), address) if found["label"] else address
    style = next(one for one in _STYLES if found[one] is not None)
    return _STYLES[style].format(_inline(found[style]))


def _plain(text: str) -> str:
    """What Slack shows of a text that is escaped for it; without the letter that parts three backticks."""
    return text.replace("\u200b", "").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
