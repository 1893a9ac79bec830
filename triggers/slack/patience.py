"""How long to wait for Slack, and how its refusals are told."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loops.errors import ExternalError, LoopsError

log = logging.getLogger("loops.slack")


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds. What failed is tried again after a wait that doubles from `first` to `most`; a socket that lived for
    `settled` is followed by the next at once."""

    look: float = 1.0
    first: float = 1.0
    most: float = 60.0
    settled: float = 10.0
    ping: float = 5.0


class Patience:
    """The waits between tries."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._next = timing.first

    def reset(self) -> None:
        """It worked."""
        self._next = self._timing.first

    def wait(self, asked: float | None = None) -> float:
        """The seconds until the next try, `asked` by Slack at least."""
        wait, self._next = self._next, min(2 * self._next, self._timing.most)
        return max(wait, asked or 0.0)

    def tell(self, what: str, error: LoopsError, extra: Mapping[str, Any]) -> float:
        """Log what failed and when it is tried again; the seconds until then."""
        wait = self.wait(error.retry_after if isinstance(error, ExternalError) else None)
        hint = f" ({error.hint})" if error.hint else ""
        log.warning("%s: %s%s; next try in %.0f s", what, error.message, hint, wait, extra=dict(extra))
        return wait
