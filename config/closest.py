"""Which known name somebody may have meant by one that is not known: one answer for settings, commands, workflows and
templates."""

import difflib
from collections.abc import Iterable

# Below it lies what merely shares some letters, as `nofunc` and `round` do; a letter too much, too few or changed, or
# two that changed places, lie above it in names of four letters and more.
_ALIKE = 0.7
_LONGEST_COMPARED = 60


def closest(name: str, known: Iterable[str], prefix: str = "") -> str | None:
    """The known name that is most like `name`, None where none is like it. A `prefix` that the names share brings none
    of them closer, and case makes no difference."""
    folded = {_folded(candidate, prefix): candidate for candidate in known}
    found = difflib.get_close_matches(_folded(name, prefix), folded, n=1, cutoff=_ALIKE)
    return folded[found[0]] if found else None


def _folded(name: str, prefix: str) -> str:
    return name.lower().removeprefix(prefix.lower())[:_LONGEST_COMPARED]
