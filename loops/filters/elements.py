"""The elements of a page that somebody clicked: from the one that was hit outwards to the root.

Browsers send them as one text (`$elements_chain`: `a.button:href="/x"text="Buy";div:...`) or as a list (`$elements`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from loops.event import Event, JsonValue

CHAIN = "$elements_chain"
NAMED_TAGS = ("a", "button", "form", "input", "select", "textarea", "label")
"""The tags that `elements_chain_elements` tells of."""

_FIRST_ATTRIBUTE = re.compile(r':[A-Za-z0-9_\-]*="')
_QUOTE_OR_END = re.compile(r'\\.|[";]', re.DOTALL)
_QUOTE = re.compile(r'\\.|"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """One element; `attributes` by their names in a chain: `text`, `href`, `attr_id`, `nth-child`, `attr__<name>`."""

    tag: str
    classes: frozenset[str]
    attributes: Mapping[str, str]

    def attribute(self, name: str) -> str | None:
        """An attribute by its name in HTML."""
        if name == "id":
            return self.attributes.get("attr_id", self.attributes.get("attr__id"))
        return self.attributes.get(f"attr__{name}", self.attributes.get(name))


def elements_of(event: Event) -> tuple[Element, ...]:
    """The elements of an event; none where it tells of none."""
    chain = event.properties.get(CHAIN)
    if isinstance(chain, str) and chain:
        return _parsed(chain)
    listed = event.properties.get("$elements")
    if not isinstance(listed, list):
        return ()
    return tuple(_element_of(one) for one in listed if isinstance(one, dict))


def texts_of(elements: tuple[Element, ...], attribute: str) -> list[JsonValue]:
    """Every different value of an attribute, from the inside out."""
    found = (one.attributes.get(attribute) for one in elements)
    return [*dict.fromkeys(value for value in found if value is not None)]


@lru_cache(maxsize=8)
def _parsed(chain: str) -> tuple[Element, ...]:
    return tuple(_element(part) for part in _parts(chain) if part)


def _parts(chain: str) -> Iterator[str]:
    start, quoted = 0, False
    for found in _QUOTE_OR_END.finditer(chain):
        if found[0] == '"':
            quoted = not quoted
        elif found[0] == ";" and not quoted:
            yield chain[start : found.start()].strip()
            start = found.end()
    yield chain[start:].strip()


def _element(part: str) -> Element:
    first = _FIRST_ATTRIBUTE.search(part)
    head, rest = (part, "") if first is None else (part[: first.start()], part[first.start() + 1 :])
    tag, *classes = head.rstrip(":").split(".")
    return Element(tag, frozenset(name for name in classes if name), _attributes(rest))


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name: str | None = None
    start = 0
    for quote in _QUOTE.finditer(text):
        if quote[0] != '"':
            continue
        between = text[start : quote.start()]
        if name is None:
            name = between.removesuffix("=").strip()
        else:
            found.setdefault(name, between.replace('\\"', '"'))
            name = None
        start = quote.end()
    return found


# How the keys of the list form are called in a chain.
_RENAMED = {
    "$el_text": "text",
    "attr__href": "href",
    "attr__id": "attr_id",
    "nth_child": "nth-child",
    "nth_of_type": "nth-of-type",
}


def _element_of(entry: Mapping[str, JsonValue]) -> Element:
    attributes = {
        _RENAMED.get(key, key): value if isinstance(value, str) else str(value)
        for key, value in entry.items()
        if isinstance(value, (str, int, float))
    }
    classes = entry.get("attr__class")
    names = classes.split() if isinstance(classes, str) else [one for one in _list(classes) if isinstance(one, str)]
    return Element(attributes.get("tag_name", ""), frozenset(names), attributes)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
