"""CSS selectors over the elements of an event: tags, classes, ids, attributes, `:nth-child`, descendants and `>`."""

import re
from dataclasses import dataclass

from loops.errors import Fault, FilterError
from loops.filters.elements import Element

_PIECE = re.compile(
    r"(?P<tag>[A-Za-z][\w\-]*|\*)|\.(?P<class>[\w\-]+)|\#(?P<id>[\w\-]+)"
    r"|\[(?P<name>[\w\-:]+)(?:=(?P<quote>[\"'])(?P<value>[^\"']*)(?P=quote))?\]"
    r"|:(?P<nth>nth-child|nth-of-type)\((?P<number>\d+)\)",
    re.ASCII,
)
_LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class _Compound:
    """What one element must be like. `child` is true where it must be the parent of the one that follows it."""

    tag: str
    classes: frozenset[str]
    attributes: tuple[tuple[str, str | None], ...]
    child: bool = False

    def fits(self, element: Element) -> bool:
        return (
            self.tag in ("", "*", element.tag)
            and self.classes <= element.classes
            and all(_has(element, name, value) for name, value in self.attributes)
        )


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled selector; the last compound comes first, as the elements go from the inside out."""

    compounds: tuple[_Compound, ...]

    def finds(self, elements: tuple[Element, ...]) -> bool:
        """Whether one of the elements is what the selector asks for."""
        first, *outer = self.compounds
        places = {place for place, element in enumerate(elements) if first.fits(element)}
        for compound in outer:
            if not places:
                return False
            nearest = min(places)
            reach = {place + 1 for place in places} if compound.child else range(nearest + 1, len(elements))
            places = {place for place in reach if place < len(elements) and compound.fits(elements[place])}
        return bool(places)


def _has(element: Element, name: str, value: str | None) -> bool:
    found = element.attribute(name)
    return found is not None if value is None else found == value


def compile_selector(text: str, *, path: str) -> Selector:
    """The selector. Raises FilterError with the part that is not understood."""
    hint = "supported: tag, .class, #id, [name='value'], :nth-child(2), a descendant by a space, a child by >"
    if len(text) > _LONGEST:
        raise FilterError([Fault(path, f"is a selector of {len(text)} characters", f"at most {_LONGEST}")])
    compounds: list[_Compound] = []
    child = False
    for word in _words(text):
        if word == ">":
            if child or not compounds:
                raise FilterError([Fault(path, "is no selector: nothing stands before a >", hint)])
            child = True
            continue
        compound = _compound(word, child)
        if compound is None:
            raise FilterError([Fault(path, f"is no selector that can be used: {word!r} is not understood", hint)])
        compounds.append(compound)
        child = False
    if child or not compounds:
        raise FilterError([Fault(path, "is no selector: it ends too early", hint)])
    return Selector(_outwards(compounds))


def _outwards(compounds: list[_Compound]) -> tuple[_Compound, ...]:
    """From the inside out: whether an element is a child is asked of the one around it then."""
    turned: list[_Compound] = []
    child = False
    for one in reversed(compounds):
        turned.append(_Compound(one.tag, one.classes, one.attributes, child))
        child = one.child
    return tuple(turned)


def _words(text: str) -> list[str]:
    """The compounds and the signs between them; spaces inside brackets belong to the compound."""
    words: list[str] = []
    word, depth = "", 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth <= 0 and (letter.isspace() or letter == ">"):
            words += [word] if word else []
            words += [">"] if letter == ">" else []
            word = ""
        else:
            word += letter
    return [*words, word] if word else words


def _compound(word: str, child: bool) -> _Compound | None:
    tag, classes, attributes, place = "", set[str](), list[tuple[str, str | None]](), 0
    while place < len(word):
        found = _PIECE.match(word, place)
        if found is None or (found["tag"] and place):
            return None
        tag = found["tag"] or tag
        if found["class"]:
            classes.add(found["class"])
        if found["id"]:
            attributes.append(("id", found["id"]))
        if found["name"]:
            attributes.append((found["name"], found["value"]))
        if found["nth"]:
            attributes.append((found["nth"], found["number"]))
        place = found.end()
    return _Compound(tag, frozenset(classes), tuple(attributes), child)
