"""Values that stand inside an instruction: as JSON, which no text of theirs can leave."""

import json
from collections.abc import Sequence

from loops.event import JsonValue
from loops.invisible import with_invisible_escaped

BRACKETS = (("<", "\\u003c"), (">", "\\u003e"))
MARKUP = (*BRACKETS, ("&", "\\u0026"))


def quoted(value: JsonValue) -> str:
    """A variable's value as it stands in a prompt or title: JSON with `<`, `>`, `&` and what cannot be seen escaped."""
    return escaped(json.dumps(value, ensure_ascii=False), MARKUP)


def escaped(text: str, marks: Sequence[tuple[str, str]] = MARKUP) -> str:
    """JSON text that means the same without the marks, and without letters that nobody sees."""
    for mark, escape in marks:
        text = text.replace(mark, escape)
    return with_invisible_escaped(text)
