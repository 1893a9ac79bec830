"""What happened in a step, bounded so that no step can fill the database, and made of what every database stores."""

import json
import re
from dataclasses import replace

from loops.event import JsonValue
from loops.ports import Clock
from loops.runs.state import Ended, Failed, Outcome, Parked, Succeeded

MOST_RESULT_BYTES = 256_000
_MOST_LINES = 200
_MOST_LINE = 16_000
# SQLite takes no lone surrogate, Postgres no NUL either, and JSON has no number that is not finite.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SUSPECT = re.compile("\\\\u0000|[\ud800-\udfff]")


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


def storable_text(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def storable(value: JsonValue) -> JsonValue:
    """The value as JSON that every database stores: such text replaced, numbers that are not finite made None."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return _replaced(value)
    return _replaced(value) if _SUSPECT.search(text) else value


def _replaced(value: object) -> JsonValue:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if abs(value) < float("inf") else None
        case dict():
            return {storable_text(str(key)): _replaced(item) for key, item in value.items()}
        case list() | tuple():
            return [_replaced(item) for item in value]
        case _:
            return storable_text(str(value))


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
