"""What happened in a step, bounded so that no step can fill the database, and made of what every database stores."""

import json
from dataclasses import replace

from loops.event import JsonValue
from loops.ports import Clock
from loops.runs.state import Ended, Failed, Outcome, Parked, Succeeded
from loops.storable import storable, storable_text

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
        if len(self.lines) > _MOST_LINES:
            return
        cut = text if len(text) <= _MOST_LINE else text[:_MOST_LINE] + " [truncated]"
        note = f"[more than {_MOST_LINES} lines]" if len(self.lines) == _MOST_LINES else storable_text(cut)
        self.lines.append({"at": self._clock.now().isoformat(), "text": note})


def bounded(result: JsonValue) -> JsonValue:
    """The result, or a note of its size where it is over 256 KB."""
    text = json.dumps(result, ensure_ascii=False)
    size = len(text.encode())
    return result if size <= MOST_RESULT_BYTES else {"truncated": True, "size": size, "start": text[:1000]}


def storable_outcome(came: Outcome) -> Outcome:
    """What a step came to, in values that can be stored."""
    match came:
        case Succeeded(result):
            return replace(came, result=storable(result))
        case Failed(_, message, hint, partial):
            told = replace(came, message=storable_text(message), hint=storable_text(hint))
            return replace(told, partial=storable(partial))
        case Ended(reason):
            return Ended(storable_text(reason))
        case Parked(wait):
            return Parked(replace(wait, detail={name: storable(item) for name, item in wait.detail.items()}))
        case _:
            return came
