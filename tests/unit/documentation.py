"""Reading the documentation: its pages, tables, code and commands."""

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from server.cli.parser import build_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGES.md", *DOCS.rglob("*.md")])
_FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(.+?)\1")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"^(?:[A-Z_]+=\S* +)*(?:\.venv/bin/)?loops +(\S.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block of code. `info` is what stands behind the fence."""

    page: Path
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text.strip()[:40]!r}"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def blocks() -> Iterator[Block]:
    for path in PAGES:
        for info, text in _FENCE.findall(path.read_text("utf-8")):
            yield Block(path, info.strip(), text)


def _prose(path: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", path.read_text("utf-8"))


def table(text: str, *head: str) -> list[list[str]]:
    """The rows of the one table with this head, each cell without what marks it as code."""
    lines = text.splitlines()
    (begin,) = [number for number, line in enumerate(lines) if _cells(line) == list(head)]
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    return [_bare(cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _bare(cell: str) -> str:
    plain = cell.replace("\\|", "|")
    return plain[1:-1] if re.fullmatch(r"`[^`]+`", plain) else plain


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no heading {heading!r}"
    return found[1]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links() -> set[tuple[Path, str]]:
    """The pages with the targets of their links."""
    return {(path, target) for path in PAGES for target in _LINK.findall(_CODE.sub("", _prose(path)))}


def commands() -> set[str]:
    """What follows `loops` in lines that a reader may type."""
    parts = (part for line in _lines() for part in line.split("&&"))
    return {typed for part in parts if (typed := _typed(part)) is not None}


def mentions() -> set[str]:
    """What follows `loops` in commands that the text names, perhaps without their arguments."""
    codes = (code for path in PAGES for _, code in _CODE.findall(_prose(path)) if "…" not in code)
    return {typed for code in codes if (typed := _typed(code)) is not None}


def _lines() -> Iterator[str]:
    for block in blocks():
        if block.info in {"", "sh"}:
            yield from unbroken(block.text).splitlines()
    for path in PAGES:
        yield from (line for line in unbroken(_prose(path)).splitlines() if line.startswith("    "))


def unbroken(text: str) -> str:
    """The text with lines joined that a backslash breaks."""
    return re.sub(r" *\\\n *", " ", text)


def _typed(line: str) -> str | None:
    """Up to the first pipe, redirection or further command."""
    found = _COMMAND.match(line.strip())
    return None if found is None else re.split(r" (?:[|>]|&&) ?", found[1])[0]


@cache
def _parser() -> argparse.ArgumentParser:
    return build_parser()


def complaint(command: str) -> str:
    """What the parser of `loops` says of a command; empty when it takes it. `<…>` stands for a value."""
    arguments = shlex.split(re.sub(r"<[\w ]+>", "X", command), comments=True)
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        try:
            _parser().parse_args(arguments)
        except SystemExit:
            return told.getvalue()
    return ""
