"""What a brake has counted, so that it can be given back.

An event counts for as long as it has started a run or may still start one. Whatever stops it after a brake has counted
it gives that count back, in the transaction that stops it: a later brake, another event that takes its place in
debounce, or any stage once debounce let it go.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from loops.event import JsonValue
from triggers.brakes import without
from triggers.masking import Window, given_back


@dataclass(frozen=True, slots=True)
class Counted:
    """That a brake counted an event, under `digest`. `at` is when its window began (mask), or when the event passed
    (rate limit); `number` is which match of the window it was, and `threshold` the mask's."""

    brake: Literal["mask", "rate_limit"]
    digest: str
    at: datetime
    number: int = 0
    threshold: int = 0

    def as_json(self) -> dict[str, JsonValue]:
        """As it is stored with what debounce holds."""
        return {
            "brake": self.brake,
            "digest": self.digest,
            "at": self.at.isoformat(),
            "number": self.number,
            "threshold": self.threshold,
        }


def counted_of(stored: Sequence[Mapping[str, Any]] | None) -> tuple[Counted, ...]:
    """What was stored; nothing, where an older release held the event."""
    return tuple(Counted(**{**one, "at": datetime.fromisoformat(one["at"])}) for one in stored or ())


def unmatched(counted: Counted, window: Window) -> Window | None:
    """A mask's window without this match; None where none is left. It stays where the one that counted is over."""
    return window if window.started_at != counted.at else given_back(counted.threshold, window, counted.number)


def unpassed(counted: Counted, passed: Sequence[datetime]) -> tuple[datetime, ...]:
    """What passed a rate limit without this event. All of it stays where that is older than the period."""
    return without(passed, counted.at) if counted.at in passed else tuple(passed)


def undo(
    counted: Counted, windows: MutableMapping[str, Window], passed: MutableMapping[str, tuple[datetime, ...]]
) -> None:
    """Give back, of states in memory: windows of a mask and what passed a rate limit, by digest."""
    if counted.brake == "rate_limit":
        passed[counted.digest] = unpassed(counted, passed.get(counted.digest, ()))
        return
    window = windows.pop(counted.digest, None)
    left = None if window is None else unmatched(counted, window)
    if left is not None:
        windows[counted.digest] = left
