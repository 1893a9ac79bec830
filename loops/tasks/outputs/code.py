"""What GitHub takes for code, wherever that is beyond doubt. Pure.

Whoever wrote the text may know better how GitHub reads it, so of two readings the one without code counts. A fence
counts from the first column to its own closing line, in a text without HTML outside of fences; a span in a paragraph of
which every line has its own pairs of single backticks, with white space before each.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPENING = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+#.-]*[ \t]*")
_FENCE = re.compile(r"`{3}|~{3}")
_MARKUP = re.compile(r"<[A-Za-z/!?]|\$\$")
_SPAN = re.compile(r"(?<!\S)\(?(`[^`|]+`)(?!`)")
_DOUBT = re.compile(r"[\\$]|``")


@dataclass(frozen=True, slots=True)
class Code:
    """A piece of code from `start` to `end`, with the marks around it; a block, or a span in a line."""

    start: int
    end: int
    is_block: bool


def certain_code(text: str) -> list[Code]:
    """Every piece that is code beyond doubt, in the order of the text; none where anything speaks against it."""
    found: list[Code] = []
    paragraph: list[tuple[int, str]] = []
    lines = list(_lines(text))
    at = 0
    while at < len(lines):
        start, line = lines[at]
        closing = _closing(lines, at)
        if closing is not None:
            found += [*_spans(paragraph), Code(start, lines[closing][0] + len(lines[closing][1]), is_block=True)]
            paragraph, at = [], closing + 1
            continue
        if _FENCE.search(line) or _MARKUP.search(line):
            return []
        if line.strip():
            paragraph.append((start, line))
        else:
            found += _spans(paragraph)
            paragraph = []
        at += 1
    return [*found, *_spans(paragraph)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _closing(lines: Sequence[tuple[int, str]], at: int) -> int | None:
    """The line that closes the fence which this one opens; None where it opens none, or none closes it beyond doubt."""
    opening = _OPENING.fullmatch(lines[at][1])
    if opening is None:
        return None
    mark = opening[1]
    for number in range(at + 1, len(lines)):
        line = lines[number][1]
        if line.rstrip(" \t").strip(mark[0]) == "" and line.startswith(mark):
            return number
        if line.lstrip(" \t>").startswith(mark[0] * 3):
            return None
    return None


def _spans(paragraph: Sequence[tuple[int, str]]) -> list[Code]:
    found: list[Code] = []
    for start, line in paragraph:
        spans = list(_SPAN.finditer(line))
        if _DOUBT.search(line) or line.count("`") != 2 * len(spans):
            return []
        found += [Code(start + one.start(1), start + one.end(1), is_block=False) for one in spans]
    return found
