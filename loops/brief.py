"""Text that other parts wrote, cut to what a table or a notice has room for."""

import re

MOST = 300
_OBJECT = re.compile(r"<[^<>]{1,200} at 0x[0-9a-fA-F]+>")


def one_line(text: str, most: int = MOST) -> str:
    """The text on one line of at most `most` characters, without what Python says of an object that has no words."""
    line = " ".join(_OBJECT.sub("…", text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
