"""Where a fault lies and what a pass over a document gathers."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from loops.errors import Fault

_SHORTEST_BEGINNING = 2
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def join(path: str, *parts: str | int) -> str:
    """`path` with further keys (`.key`, or `['odd key']`) and indexes (`[0]`)."""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _PLAIN_KEY.fullmatch(part):
            path += f"[{shown(part)!r}]"
        else:
            path += f".{part}" if path else part
    return path


def shown(value: object, limit: int = 60) -> str:
    """A value as a message may print it: one line, cut."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`did you mean …?` when a known name is close, or begins with `name`; else nothing. A `prefix` that the names
    share brings none of them closer."""
    wanted = name.lower().removeprefix(prefix)[:100]
    folded = {candidate.lower().removeprefix(prefix): candidate for candidate in known}
    close = difflib.get_close_matches(wanted, list(folded), n=1)
    if not close and len(wanted) > _SHORTEST_BEGINNING:
        close = [candidate for candidate in folded if candidate.startswith(wanted)]
    return f'did you mean "{folded[close[0]]}"?' if close else ""


def listed(names: Iterable[str]) -> str:
    """Names as a message lists them: `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def suggestion(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is not known: the nearest one, else all of them."""
    return nearest(name, known) or f"known here: {', '.join(known)}"


@dataclass(slots=True)
class Findings:
    """What a pass over a document found: faults refuse it, warnings go with it."""

    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def refuse(self, path: str, message: str, hint: str = "") -> None:
        self.faults.append(Fault(path, message, hint))

    def warn(self, path: str, message: str, hint: str = "") -> None:
        self.warnings.append(Fault(path, message, hint))

    def absorb(self, later: "Findings") -> None:
        """Take over what a later pass found. A fault about a place, or an object, in which an earlier pass has already
        refused something is that fault's echo and left out."""
        refused = [fault.path for fault in self.faults]
        for fault in later.faults:
            if not any(path == fault.path or path.startswith(f"{fault.path}.") for path in refused):
                self.faults.append(fault)
        self.warnings.extend(later.warnings)
