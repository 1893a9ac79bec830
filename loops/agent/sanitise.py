"""What an agent says, made fit to be shown anywhere: nothing in it is hidden or acts, and every visible word is kept.

An agent reads what strangers wrote, so what it says may be theirs. This is for all of it, whether it goes to Slack,
into an email, onto a page or into a comment. Mentions are left for whoever sends, who knows what pings there.

- Letters that cannot be seen go, also where they are written as entities.
- Comments go; other markup that a reader would not see (declarations, what hides or loads something) is shown as text.
- Titles of links and attributes such as alt go. Pictures become links, so that nothing is loaded by itself.
- A link with another scheme than http, https and mailto is none any more: a space stands before its colon.
- Code stays as it is but for letters that cannot be seen.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator

from loops.event import JsonValue
from loops.invisible import without_invisible

_ALLOWED = frozenset({"http", "https", "mailto"})
_PASSES = 4

# Spans have an end to how far they look for their end, so that no text takes more than about linear time. Where it is
# not sure that a reader takes something for code, it is not: code is what is left as it is.
_FENCED = (
    r"^ {0,3}(?:(?P<ticks>`{3,})[^`\n]*|(?P<waves>~{3,})[^\n]*)$"
    r"(?:[\s\S]*?^ {0,3}(?:(?(ticks)(?P=ticks)`*|(?P=waves)~*))[ \t]*$|[\s\S]*)"
)
_SPAN = r"(?<!`)(?P<tick>`{1,5})(?!`)[^\n]{1,2000}?(?<!`)(?P=tick)(?!`)"
_TITLE = r"""(?:"(?:[^"\\]|\\.){0,4000}"|'(?:[^'\\]|\\.){0,4000}'|\((?:[^()\\]|\\.){0,4000}\))"""
_DESTINATION = r"(?:<[^<>\n]{1,2000}>|(?:[^\s()<>\\]|\\.|\([^\s()]{0,500}\)){1,2000})"
_LABEL = r"(?:[^\[\]\\]|\\.|\[[^\[\]]{0,500}\]){0,1000}"
_QUOTED = r"\"[^\"]{0,4000}\"|'[^']{0,4000}'"
_SHOWN = (
    "img|picture|source|video|audio|track|iframe|frame|frameset|object|embed|applet|script|style|template|noscript|"
    "noembed|noframes|svg|math|title|textarea|xmp|plaintext|link|meta|base|form|input|button|select|option|datalist|"
    "canvas|dialog|body|html|head"
)
# Slack's tokens look like declarations, and hide nothing.
_SLACK = r"!(?:here|channel|everyone|subteam\^\w{1,20})(?:\|[^\s<>]{0,40})?>"
_TOKEN = re.compile(
    rf"(?P<code>{_FENCED}|{_SPAN})"
    r"|(?P<escaped>\\[!-/:-@\[-`{-~])"
    r"|(?P<url>\bhttps?://[^\s<>\"'`\[\]()\\|]+)"
    r"|(?P<comment><!--)"
    rf"|(?P<declaration><(?=[?!])(?!{_SLACK}))"
    rf"|(?P<tag></?(?P<name>[a-z][a-z0-9-]{{0,40}})(?=[\s/>])(?P<inside>(?:{_QUOTED}|[^\"'<>]){{0,4000}})>)"
    rf"|(?P<opening><(?=/?(?:{_SHOWN})(?![\w-])))"
    r"|<(?P<auto>[a-z][a-z0-9+.-]{1,40}):(?!:)(?P<address>[^\s<>|]*)>"
    rf"|!(?P<picture>\[(?P<alt>{_LABEL})\])"
    r"|(?P<bang>!(?=\[))"
    rf"|\]\(\s*(?P<to>{_DESTINATION})(?:\s+{_TITLE})?\s*\)"
    rf"|^ {{0,3}}\[(?P<label>{_LABEL})\]:[ \t]*\n?[ \t]*(?P<place>{_DESTINATION})(?:[ \t]*\n?[ \t]*(?<=\s){_TITLE})?"
    r"[ \t]*$"
    r"|(?P<entity>&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)"
    r"|(?<![a-z0-9+.-])(?!(?:https?|mailto):)(?P<bare>[a-z][a-z0-9+.-]{1,40}(?=://)|(?:java|vb|live)script(?=:\S)"
    r"|file(?=:[/\\])|data(?=:(?:[a-z]+/[\w.+-]+)?[;,]))",
    re.IGNORECASE | re.MULTILINE,
)
_ATTRIBUTE = re.compile(
    rf"(?P<before>[\s/]*)(?P<attribute>[^\s\"'<>/=]+)(?:(?P<equals>\s*=\s*)(?P<value>{_QUOTED}|[^\s\"'<>]+))?"
)
_HIDING = re.compile(
    r"alt|title|style|placeholder|content|summary|srcdoc|srcset|label|longdesc|cite|aria-.*|data-.*|on.*",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\[([^\[\]]{1,500})\]")
_DEFINED = re.compile(r"^ {0,3}\[([^\[\]]{1,500})\]:", re.MULTILINE)
_SCHEME = re.compile(r"[\s\x00-\x20]*([a-z][a-z0-9+.-]*)(?=:)", re.IGNORECASE)
# What a reader takes out of an address before it looks for the scheme.
_SKIPPED = re.compile(r"[\t\n\r]|\\(?=[!-/:-@\[-`{-~])")
_PLAIN = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "`": "'", "~": "-", "\\": "/", "&": "+"})


def sanitised(text: str) -> str:
    """The text with nothing hidden in it and nothing that acts. Sanitised again it stays the same; never raises."""
    for _number in range(_PASSES):
        before, text = text, _sanitised_once(text)
        if text == before:
            return text
    # What is not settled by now was nested on purpose: without its brackets it is plain text.
    return _sanitised_once(text.translate(_PLAIN))


def sanitised_value(value: JsonValue) -> JsonValue:
    """The value with every text in it sanitised."""
    match value:
        case str():
            return sanitised(value)
        case list():
            return [sanitised_value(item) for item in value]
        case dict():
            return {name: sanitised_value(item) for name, item in value.items()}
    return value


def _sanitised_once(text: str) -> str:
    seen = without_invisible(text)
    return "".join(_Pass(seen).parts())


class _Pass:
    """One walk through a text, from token to token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._uses = Counter(label.lower() for label in _REFERENCE.findall(text))
        self._defined = {label.lower() for label in _DEFINED.findall(text)}
        self._last_closing = text.rfind("-->")

    def parts(self) -> Iterator[str]:
        """The pieces of the sanitised text."""
        at = 0
        while (found := _TOKEN.search(self._text, at)) is not None:
            yield self._text[at : found.start()]
            at = found.end()
            if found["picture"] is not None and not self._loads(found):
                # An exclamation mark before brackets: what stands in them is text as any other.
                yield "!["
                at = found.start() + 2
                continue
            if found["comment"] is None:
                yield self._replacement(found)
                continue
            inside = found.start() + 2  # a reader takes <!--> for a whole comment
            if inside > self._last_closing:
                yield "< !--"
            else:
                at = self._text.index("-->", inside) + 3
        yield self._text[at:]

    def _replacement(self, found: "re.Match[str]") -> str:
        whole = found[0]
        match found.lastgroup:
            case "declaration" | "opening":
                return "< "
            case "tag":
                return _tag(found)
            case "address":
                return whole if found["auto"].lower() in _ALLOWED else f"<{found['auto']} :{found['address']}>"
            case "picture":
                return found["picture"] if found["alt"].strip() else "[picture]"
            case "bang":
                return "! "
            case "to":
                return f"]({_inert(found['to'])})"
            case "place":
                return self._definition(found)
            case "entity":
                return whole if without_invisible(html.unescape(whole)) else ""
            case "bare":
                return f"{whole} "
        return whole

    def _loads(self, found: "re.Match[str]") -> bool:
        """Whether it is a picture, and not only brackets after an exclamation mark."""
        return self._text[found.end() : found.end() + 1] in {"(", "["} or found["alt"].lower() in self._defined

    def _definition(self, found: "re.Match[str]") -> str:
        """Where a link that is named elsewhere leads; a reader shows none that nothing refers to."""
        is_used = self._uses[found["label"].lower()] > 1
        return f"{'' if is_used else chr(92)}[{found['label']}]: {_inert(found['place'])}"


def _tag(found: "re.Match[str]") -> str:
    inside = _ATTRIBUTE.sub(_attribute, found["inside"])
    slash = "/" if found[0].startswith("</") else ""
    is_shown = re.fullmatch(_SHOWN, found["name"], re.IGNORECASE) is not None
    return f"<{' ' if is_shown else ''}{slash}{found['name']}{inside}>"


def _attribute(found: "re.Match[str]") -> str:
    name, value = found["attribute"].lower(), found["value"]
    if name == "hidden" or (value is not None and _HIDING.fullmatch(name)):
        return ""
    if value is None:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    inner = value[1:-1] if quote else value
    return f"{found['before']}{found['attribute']}{found['equals']}{quote}{_inert_address(inner)}{quote}"


def _inert(destination: str) -> str:
    """A link's destination that leads nowhere unless its scheme is allowed."""
    if destination.startswith("<"):
        return f"<{_inert_address(destination[1:-1])}>"
    return _inert_address(destination)


def _inert_address(address: str) -> str:
    scheme = _SCHEME.match(_SKIPPED.sub("", html.unescape(address)))
    if scheme is None or scheme[1].lower() in _ALLOWED:
        return address
    plain = _SCHEME.match(address)
    # A scheme that is not written plainly is left as it is, behind what makes it the name of a place on a page.
    return f"#{address}" if plain is None else f"{plain[0]} {address[plain.end() :]}"
