"""Markdown, as agents write it, in Slack's mrkdwn.

Block by block: fences, tables, headings, lists, rules, quotes; then each line's inline marks. Slack knows no headings,
tables and languages of code: headings become bold, tables code blocks, languages go.
"""

import html
import re
from collections.abc import Iterator
from itertools import accumulate

from notify.mrkdwn import LONGEST_ADDRESS, URL, bare_link, escape, link
from notify.split import FENCE

_FENCE_LINE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>.*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$")
_RULE = re.compile(r"^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"^([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)$")
_QUOTES = re.compile(r"(?: {0,3}> ?)+")
_DELIMITER = re.compile(r":?-+:?")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_LINE_OF_RULE = "─" * 12
# Columns are aligned up to this width, and only in a table that comes to a few times its own size by it: padding one
# long cell's column in every row would make megabytes of some kilobytes.
_WIDEST_COLUMN = 40
_MOST_PADDING = 4
# Spans have an end to how far they look for their end, so that no text takes more than linear time.
_DESTINATION = rf"(?:<[^<>\n]{{1,{LONGEST_ADDRESS}}}>|(?:[^\s()<>]|\([^\s()<>]{{0,200}}\)){{1,{LONGEST_ADDRESS}}})"
_TITLE = r"(?:[ \t]+(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'))?"
_BOTH = r"(?=\S)[^*\n]{1,500}?(?<=\S)"
_STARS = r"(?=\S)(?:[^*\n]|\*(?!\*(?!\*))){1,500}?(?<=\S)"
_STAR = r"(?=\S)(?:[^*\n]|\*\*(?=\S)[^*\n]{1,200}(?<=\S)\*\*){1,500}?(?<=\S)"
_LINES = r"(?=\S)(?:[^_\n]|_(?!_)){1,500}?(?<=\S)"
_LINE = r"(?=\S)(?:[^_\n]|(?<=\w)_(?=\w)){1,500}?(?<=\S)"
_WAVES = r"(?=\S)(?:[^~\n]|~(?!~)){1,500}?(?<=\S)"
_INLINE = re.compile(
    rf"(?P<code>(?<!`)(?P<ticks>`{{1,5}})(?!`)(?P<inner>.{{1,1000}}?)(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<escaped>\\[!-/:-@\[-`{{-~])"
    rf"|!?\[(?P<label>(?:[^\[\]\n]|\[[^\[\]\n]{{0,200}}\]){{0,500}})\]\((?P<to>{_DESTINATION}){_TITLE}\)"
    rf"|<(?P<angle>(?:https?://|mailto:)[^\s<>|]{{1,{LONGEST_ADDRESS}}})(?:\|(?P<name>[^<>\n]{{0,500}}))?>"
    rf"|(?P<mention><[@#!][^<>\n]{{1,200}}>)"
    rf"|(?P<url>\b{URL})"
    rf"|(?P<entity>&(?:amp|lt|gt|quot|apos|nbsp|#\d{{1,7}}|#[xX][0-9a-fA-F]{{1,6}});)"
    rf"|(?P<both>\*\*\*(?P<both_in>{_BOTH})\*\*\*(?!\*))"
    rf"|(?P<strong>\*\*(?P<stars>{_STARS})\*\*(?!\*)|(?<!\w)__(?P<lines>{_LINES})__(?!\w))"
    rf"|(?P<strike>~~(?P<waves>{_WAVES})~~)"
    rf"|(?P<emphasis>\*(?!\*)(?P<star>{_STAR})\*(?!\*)|(?<!\w)_(?!_)(?P<line>{_LINE})_(?!\w))"
    rf"|(?P<letter>[&<>])"
)


def to_mrkdwn(text: str, mentions: frozenset[str] = frozenset()) -> str:
    """The text for Slack; only `mentions` ping."""
    return "\n".join(_blocks(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), mentions))


def _blocks(lines: list[str], mentions: frozenset[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        fence = _FENCE_LINE.match(lines[at])
        if fence is not None and _opens(fence):
            end = _fence_end(lines, at, fence["mark"])
            yield _code_block(lines[at + 1 : end])
            at = end + 1
        elif _is_table(lines, at):
            end = _table_end(lines, at)
            yield _code_block(_table(lines[at:end]))
            at = end
        else:
            yield _line(lines[at], mentions)
            at += 1


def _opens(fence: "re.Match[str]") -> bool:
    return fence["mark"][0] == "~" or "`" not in fence["rest"]


def _fence_end(lines: list[str], at: int, mark: str) -> int:
    """The line that closes the fence; the end of the text closes every one."""
    for index in range(at + 1, len(lines)):
        found = _FENCE_LINE.match(lines[index])
        if found and not found["rest"].strip() and found["mark"][0] == mark[0] and len(found["mark"]) >= len(mark):
            return index
    return len(lines)


def _code_block(lines: list[str]) -> str:
    # Slack ends a block at three backticks wherever they stand: a space of no width parts them.
    code = escape("\n".join(lines)).replace(FENCE, "``\u200b`")
    return f"{FENCE}\n{code}\n{FENCE}"


def _is_table(lines: list[str], at: int) -> bool:
    if at + 1 >= len(lines) or "|" not in lines[at] or "|" not in lines[at + 1]:
        return False
    delimiters = _cells(lines[at + 1])
    return all(map(_DELIMITER.fullmatch, delimiters)) and len(_cells(lines[at])) == len(delimiters)


def _table_end(lines: list[str], at: int) -> int:
    end = at + 2
    while end < len(lines) and "|" in lines[end] and lines[end].strip():
        end += 1
    return end


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_BORDER.split(inner)]


def _table(lines: list[str]) -> list[str]:
    rows = [_cells(line) for line in [lines[0], *lines[2:]]]
    widths = _widths(rows)
    padded = list(accumulate(widths, initial=0))  # how long a row of so many cells is
    is_aligned = sum(padded[len(row) - 1] for row in rows) <= _MOST_PADDING * sum(map(len, lines))
    if is_aligned:
        pads = [zip(row, widths, strict=False) for row in rows]
        shown = ["  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in pads]
    else:
        shown = [" | ".join(row) for row in rows]
    return [shown[0], "  ".join("-" * width for width in widths), *shown[1:]]


def _widths(rows: list[list[str]]) -> list[int]:
    widths: list[int] = []
    for row in rows:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], min(len(cell), _WIDEST_COLUMN))
    return widths


def _line(line: str, mentions: frozenset[str]) -> str:
    quotes = _QUOTES.match(line)
    if quotes is None:
        return _unquoted(line, mentions)
    inner, depth = line[quotes.end() :], quotes[0].count(">")
    return "> " * depth + _unquoted(inner, mentions) if inner else "> " * (depth - 1) + ">"


def _unquoted(line: str, mentions: frozenset[str]) -> str:
    if _RULE.match(line):
        return _LINE_OF_RULE
    heading = _HEADING.match(line)
    if heading is not None:
        inner = _inline(_heading(heading[1]), mentions, bold=True).strip()
        return f"*{inner}*" if inner else ""
    item = _ITEM.match(line)
    if item is not None:
        box = {"": "•", " ": "☐"}.get(item[2] or "", "☑")
        return f"{item[1]}{box} {_inline(item[3], mentions)}"
    return _inline(line, mentions)


def _heading(text: str) -> str:
    """What a heading says, without the marks that close it."""
    said = text.rstrip(" \t")
    without = said.rstrip("#")
    return without.rstrip(" \t") if without[-1:] in {" ", "\t"} else said


def _inline(text: str, mentions: frozenset[str], *, bold: bool = False) -> str:
    def one(found: "re.Match[str]") -> str:
        kind = found.lastgroup
        if found["code"] is not None:
            return _code(found["inner"])
        if found["label"] is not None:
            return _link(found, bold=bold)
        if found["angle"] is not None:
            return link(found["angle"], escape(found["name"] or ""))
        if found["mention"] is not None:
            return found[0] if found[0] in mentions else escape(found[0])
        if kind == "url":
            return bare_link(found["url"])
        if kind == "entity":
            return escape(html.unescape(found[0]))
        if kind == "escaped":
            return escape(found[0][1])
        if kind == "letter":
            return escape(found[0])
        return _styled(found, mentions, bold=bold)

    return _INLINE.sub(one, text)


def _code(inner: str) -> str:
    spaced = len(inner) > 2 and inner[0] == inner[-1] == " " and inner.strip()
    # Slack ends code at the first backtick: one inside it becomes a letter that looks like it.
    shown = escape(inner[1:-1] if spaced else inner).replace("`", "\u02cb")
    return f"`{shown}`"


def _link(found: "re.Match[str]", *, bold: bool) -> str:
    address = html.unescape(found["to"].removeprefix("<").removesuffix(">"))
    # A link inside a link's label would end it.
    label = re.sub(r"[<>]", "", _inline(re.sub(r"https?://", "", found["label"]), frozenset(), bold=bold))
    return link(address, label)


def _styled(found: "re.Match[str]", mentions: frozenset[str], *, bold: bool) -> str:
    if found["both"]:
        inner = _inline(found["both_in"], mentions, bold=True)
        return f"_{inner}_" if bold else f"*_{inner}_*"
    if found["strong"]:
        inner = _inline(found["stars"] or found["lines"], mentions, bold=True)
        return inner if bold else f"*{inner}*"
    if found["strike"]:
        return f"~{_inline(found['waves'], mentions, bold=bold)}~"
    return f"_{_inline(found['star'] or found['line'], mentions, bold=bold)}_"
