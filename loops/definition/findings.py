"""Where a fault lies and what a pass over a document gathers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from config.closest import closest
from loops.errors import Fault

MOST_KEPT = 100
MOST_SUGGESTED = 20

EVENT_TEXT = "event-text-in-prompt"
MASKS_NOBODY = "mask-without-person"
UNDECLARED = "undeclared-schedule-variable"
"""The codes of what lint knows and is found while a workflow is read."""

_SHORTEST_BEGINNING = 2
# How many more names of a document are compared with those that are known; None where nobody counts.
_left: ContextVar[list[int] | None] = ContextVar("suggestions_left", default=None)
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


@contextmanager
def few_suggestions() -> Iterator[None]:
    """Inside, only the first MOST_SUGGESTED unknown names are compared with the known ones: comparing is slow."""
    before = _left.set([MOST_SUGGESTED])
    try:
        yield
    finally:
        _left.reset(before)


def _may_suggest() -> bool:
    left = _left.get()
    if left is None:
        return True
    left[0] -= 1
    return left[0] >= 0


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`did you mean …?` when a known name is close, or begins with `name`; else nothing. A `prefix` that the names
    share brings none of them closer."""
    if not _may_suggest():
        return ""
    names = list(known)
    close = closest(name, names, prefix)
    wanted = name.lower().removeprefix(prefix)
    if close is None and len(wanted) > _SHORTEST_BEGINNING:
        close = next((one for one in names if one.lower().removeprefix(prefix).startswith(wanted)), None)
    return f'did you mean "{close}"?' if close else ""


def listed(names: Iterable[str]) -> str:
    """Names as a message lists them: `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def suggestion(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is not known: the nearest one, else all of them."""
    return nearest(name, known) or f"known here: {', '.join(known)}"


class _Kept:
    """The first of what was found, and how many more there were."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.first: list[Fault] = []
        self.more = 0

    def __bool__(self) -> bool:
        return bool(self.first)

    def add(self, fault: Fault) -> None:
        if len(self.first) < MOST_KEPT:
            self.first.append(fault)
        else:
            self.more += 1

    def absorb(self, later: "_Kept") -> None:
        for fault in later.first:
            self.add(fault)
        self.more += later.more

    def told(self) -> list[Fault]:
        if not self.more:
            return list(self.first)
        return [*self.first, Fault("", f"{self.more} more {self._what} are not shown", "mend these first")]


class Findings:
    """What a pass over a document found: faults refuse it, warnings go with it.

    Of each the first MOST_KEPT are kept; a last one says how many more there were. A fault about a place, or an object,
    in which the `earlier` pass has refused something is that fault's echo and left out.
    """

    def __init__(self, earlier: "Findings | None" = None) -> None:
        self._earlier = earlier
        self.covered: set[str] = set()  # every place with a fault, and every object around one
        self.kept_faults = _Kept("faults")
        self.kept_warnings = _Kept("warnings")

    @property
    def faults(self) -> list[Fault]:
        return self.kept_faults.told()

    @property
    def warnings(self) -> list[Fault]:
        return self.kept_warnings.told()

    def refuse(self, path: str, message: str, hint: str = "", code: str = "") -> None:
        self.take([Fault(path, message, hint, code)])

    def take(self, faults: Iterable[Fault]) -> None:
        """Refuse for what another check has found."""
        for fault in faults:
            if self._earlier is None or not self._earlier.covers(fault.path):
                self._remember(fault.path)
                self.kept_faults.add(fault)

    def warn(self, path: str, message: str, hint: str = "", code: str = "") -> None:
        self.kept_warnings.add(Fault(path, message, hint, code))

    def absorb(self, later: "Findings") -> None:
        """Take over what a later pass found."""
        self.covered |= later.covered
        self.kept_faults.absorb(later.kept_faults)
        self.kept_warnings.absorb(later.kept_warnings)

    def covers(self, path: str) -> bool:
        """Whether something at a place, or inside it, was refused, by this pass or before it."""
        return path in self.covered or (self._earlier is not None and self._earlier.covers(path))

    def _remember(self, path: str) -> None:
        self.covered.add(path)
        self.covered.update(path[: dot.start()] for dot in re.finditer(r"\.", path))
