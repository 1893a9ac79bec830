"""Paths of a repository as careless file systems take them, and as a person is shown them. Pure."""

import re
import unicodedata
from functools import lru_cache

from loops.invisible import without_invisible

_SHORT = re.compile(r"[^.~]{1,6}~[1-9](?:\.[^.]{0,3})?")
"""The other name that Windows gives to a long one."""


def plain(path: str) -> str:
    """The path as careless file systems take it: one of its names is the same in any case, with or without what cannot
    be seen, and with or without points and blanks at its end."""
    return "/".join(map(plain_name, path.split("/")))


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """One name of a path, as `plain`."""
    folded = unicodedata.normalize("NFKC", without_invisible(name)).casefold()
    return folded if folded in {".", ".."} else folded.rstrip(". ")


def odd(path: str) -> str | None:
    """Why a path is none that a file may have."""
    parts = path.split("/")
    if path.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        return "its path leads out of the repository"
    if any(is_git(part) for part in parts):
        return "its path leads into git's own folder"
    if "\\" in path or ":" in path or any(_SHORT.fullmatch(part) for part in parts):
        return "its path means another one on Windows"
    if any(ord(letter) < 32 or 0xD800 <= ord(letter) <= 0xDFFF for letter in path):
        return "its name holds letters that no name should"
    if without_invisible(path) != path:
        return "its name holds letters that cannot be seen"
    return None


def is_git(part: str) -> bool:
    """Whether a name is that of git's own folder, in any spelling."""
    return plain_name(part) in {".git", "git~1"}


def shown(path: str) -> str:
    """A path on one line, at most 200 characters."""
    safe = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    seen = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in safe)
    return seen if len(seen) <= 200 else f"{seen[:199]}…"
