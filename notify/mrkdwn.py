"""Text that means the same in Slack: `&`, `<` and `>` escaped once, links kept, mentions inert unless they are allowed.

Whoever shows the result must tell Slack to parse nothing by itself (`verbatim`, `parse: none`): then what stands here
is all that is a link, and a bare @here pings nobody.
"""

import re
from typing import Final

LONGEST_ADDRESS = 2000
URL: Final = r"https?://[^\s<>\x00-\x20\"`]+"
_TRAILING = ".,;:!?'*_~"
_UNSAFE = re.compile(r"[<>|\s\x00-\x20\"]")
_MENTION = re.compile(r"<(?:[@#][A-Z0-9]|!)[^<>\n]{0,200}>")
_TOKEN = re.compile(
    rf"(?P<mention><[@#!][^<>\n]{{1,200}}>)"
    rf"|<(?P<address>(?:https?://|mailto:)[^<>|\n]{{1,{LONGEST_ADDRESS}}})(?:\|(?P<label>[^<>\n]{{0,1000}}))?>"
    rf"|(?P<entity>&(?:amp|lt|gt);)"
    rf"|(?P<url>\b{URL})"
    rf"|(?P<quote>^>)"
    rf"|(?P<letter>[&<>])",
    re.MULTILINE,
)
_PLAIN = re.compile(rf"(?P<url>\b{URL})|(?P<letter>[&<>])")
_CODE = re.compile(r"(```.*?```|`[^`\n]{1,2000}`)", re.DOTALL)
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    """Plain text, so that Slack shows every character of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def link(address: str, label: str = "") -> str:
    """A link; `label` is mrkdwn already. An address that is none, or too long to be cut around, is shown as text."""
    if not address.startswith(("http://", "https://", "mailto:")) or len(address) > LONGEST_ADDRESS:
        return f"{label} ({escape(address)})" if label else escape(address)
    safe = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", address)
    return f"<{safe}|{label}>" if label and label != safe else f"<{safe}>"


def bare_link(found: str) -> str:
    """An address that stands in a text: what ends the sentence is no part of it."""
    end = len(found)
    unopened = found.count(")") - found.count("(")
    while end and (found[end - 1] in _TRAILING or (found[end - 1] == ")" and unopened > 0)):
        unopened -= found[end - 1] == ")"
        end -= 1
    return link(found[:end]) + escape(found[end:])


def mentions_in(text: str) -> frozenset[str]:
    """The tokens by which a text would ping: for what a person wrote into a loop, to be allowed by them."""
    return frozenset(_MENTION.findall(text))


def from_plain(text: str) -> str:
    """Text that is written in no notation: shown as it is, its addresses as links."""
    return _PLAIN.sub(lambda found: bare_link(found["url"]) if found["url"] else _ESCAPED[found["letter"]], text)


def from_mrkdwn(text: str, mentions: frozenset[str] = frozenset()) -> str:
    """Text that is in Slack's notation already: what is escaped in it stays escaped once."""
    parts = _CODE.split(text)
    outside = [_made_safe(part, mentions) for part in parts[::2]]
    inside = [re.sub(r"&(?!(?:amp|lt|gt);)", "&amp;", part) for part in parts[1::2]]
    shown = [part.replace("<", "&lt;").replace(">", "&gt;") for part in inside]
    return "".join(part for pair in zip(outside, [*shown, ""], strict=True) for part in pair)


def _made_safe(text: str, mentions: frozenset[str]) -> str:
    def one(found: "re.Match[str]") -> str:
        if found["mention"]:
            return found[0] if found["mention"] in mentions else escape(found[0])
        if found["address"]:
            return link(found["address"].replace("&amp;", "&"), _label(found["label"]))
        if found["url"]:
            return bare_link(found["url"].replace("&amp;", "&"))
        return found[0] if found["entity"] or found["quote"] else _ESCAPED[found["letter"]]

    return _TOKEN.sub(one, text)


def _label(label: str | None) -> str:
    return re.sub(r"&(?!(?:amp|lt|gt);)", "&amp;", label or "")
