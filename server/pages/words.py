"""What the pages say, as pure functions of stored values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from loops.filters.operators import shown
from server.trigger_words import wanted_words

_STAGES = {
    "start": "started a run",
    "not_started": "passes now, started nothing",
    "project": "another project",
    "trigger": "listens to something else",
    "filters": "stopped by its filters",
    "enabled": "enabled too late",
    "own_output": "own output",
    "unverified": "not verified",
    "subject_limit": "over the limit of its subject",
    "thread": "in the thread of a live task",
    "claim": "same fact again",
    "mask": "masked",
    "rate_limit": "over its rate limit",
    "debounce": "put off by debounce",
    "overlap": "a run is open already",
    "error": "failed",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def stage_words(stage: str, recomputed: bool = False) -> str:
    """Where a verdict was given, for people. One of a forecast started nothing."""
    if stage == "start" and recomputed:
        return "would start a run"
    return _STAGES.get(stage, stage.replace("_", " "))


def sentence(text: str) -> str:
    """The text with a capital at its head; the rest of it as it is."""
    return text[:1].upper() + text[1:]


def span_words(seconds: float) -> str:
    """`< 1 ms`, `850 ms`, `4.2 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms" if seconds >= 0.0005 else "< 1 ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    for number, (unit, size) in enumerate(_UNITS):
        if whole >= size:
            smaller, below = _UNITS[number + 1] if number + 1 < len(_UNITS) else ("s", 1)
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def took(start: datetime | None, end: datetime | None) -> str | None:
    """How long something took, None where one of the ends is not known."""
    return None if start is None or end is None else span_words((end - start).total_seconds())


def size_words(size: int) -> str:
    """`512 bytes`, `3.4 KB`, `2.1 MB`."""
    if size < 1000:
        return f"{size} byte" + ("" if size == 1 else "s")
    return f"{size / 1000:.1f} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


@dataclass(frozen=True, slots=True)
class Compared:
    """One predicate of a verdict."""

    key: str
    wanted: str
    found: str
    passed: bool


def compared(stored: Mapping[str, Any]) -> Compared:
    """A stored comparison in words."""
    actual, error = stored.get("actual"), stored.get("error")
    found, note = "not set" if actual is None else shown(actual), stored.get("note")
    return Compared(
        key=str(stored.get("key")),
        wanted=wanted_words(str(stored.get("operator")), stored.get("expected")),
        found=f"filter error: {error}" if error else f"{found} ({note})" if note else found,
        passed=stored.get("passed") is True,
    )
