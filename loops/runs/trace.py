"""What happened in a step, bounded so that no step can fill the database."""

import json
from typing import Any

from loops.event import JsonValue
from loops.ports import Clock

MOST_RESULT_BYTES = 256_000
_MOST_LINES = 200
_MOST_LINE = 16_000


class StepLog:
    """The lines that a step writes; at most 200, each cut at 16,000 characters."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[dict[str, str]] = []

    def write(self, text: str) -> None:
        """Add a line."""
        if len(self.lines) == _MOST_LINES:
            self.lines.append({"at": self._clock.now().isoformat(), "text": f"[more than {_MOST_LINES} lines]"})
        if len(self.lines) > _MOST_LINES:
            return
        cut = text if len(text) <= _MOST_LINE else text[:_MOST_LINE] + " [truncated]"
        self.lines.append({"at": self._clock.now().isoformat(), "text": cut})


def bounded(result: JsonValue) -> JsonValue:
    """The result, or a note of its size where it is over 256 KB."""
    text: Any = json.dumps(result, ensure_ascii=False, default=str)
    if len(text) <= MOST_RESULT_BYTES:
        return result
    return {"truncated": True, "size": len(text), "start": text[:1000]}
