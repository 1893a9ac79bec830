"""Counts the tokens of an answer as it passes, a stream of events or one JSON document."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from loops.agent.budget import tokens_of
from loops.agent.transcript import Usage

MOST_DOCUMENT = 16 << 20
_MOST_LINE = 1 << 20
_A_SECOND = 100
"""Tokens that a model may write in a second, of which a stream may show nothing: what it thinks."""
_ENDS = frozenset({"message_delta", "response.completed", "response.incomplete", "response.failed"})
_TEXTLESS = frozenset({"type", "role", "id", "name", "index"})
_DEEPEST = 6


class AnswerCounter:
    """Takes an answer in pieces. It knows both APIs by the names that they count with. `now` is in seconds."""

    def __init__(self, *, is_stream: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._is_stream = is_stream
        self._now = now
        self._begun = now()
        self._rest = bytearray()
        self._found: dict[str, int] = {}
        self._size = 0
        self._pieces = 0
        self._in_pieces = 0
        self._in_items = 0
        self._has_end = False

    def add(self, piece: bytes) -> None:
        """Take what came next."""
        self._size += len(piece)
        if not self._is_stream:
            self._rest += piece[: MOST_DOCUMENT - len(self._rest)]
            return
        *lines, rest = (self._rest + piece).split(b"\n")
        self._rest = bytearray(rest[-_MOST_LINE:])
        for line in lines:
            if line.startswith(b"data:"):
                self._look(line.removeprefix(b"data:"))

    def usage(self, most: Usage, whole: Usage) -> Usage:
        """What the answer used. One that broke off, or does not say, used what it seems to have written, where that is
        more than it told; `most` has the input of its request, `whole` what it costs at most."""
        if not self._is_stream:
            self._look(self._rest)
        told = self._told()
        if self._has_end and told is not None:
            return told
        written = self._written(whole.output)
        if told is None:
            return Usage(most.input, max(self._found.get("output", 0), written), estimated=True)
        return Usage(told.input, max(told.output, written), told.cache_read, told.cache_write, estimated=True)

    def _told(self) -> Usage | None:
        found = self._found
        if "input" not in found:
            return None
        read, written = found.get("read", 0), found.get("written", 0)
        # Anthropic counts what was cached beside its input, OpenAI inside it.
        beside = found["input"] + (read + written if "beside" in found else 0)
        return Usage(beside, found.get("output", 0), read, written)

    def _written(self, most: int) -> int:
        """Tokens that the model seems to have written."""
        if not self._is_stream:
            # A document is written before it begins: one that is cut off tells nothing of what it cost.
            return tokens_of(self._size) if self._has_end else most
        shown = max(self._pieces, tokens_of(max(self._in_pieces, self._in_items)))
        return shown if self._has_end else max(shown, min(most, int((self._now() - self._begun) * _A_SECOND)))

    def _look(self, text: bytes | bytearray) -> None:
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            self._has_end |= self._is_stream and text.strip() == b"[DONE]"
            return
        if not isinstance(event, dict):
            return
        for holder in (event, _object(event, "message"), _object(event, "response")):
            self._take(_object(holder, "usage"))
        if self._is_stream:
            is_last = event.get("type") in _ENDS or (event.get("choices") == [] and "usage" in event)
            self._has_end |= is_last and "output" in self._found
            self._read(event)
        else:
            self._has_end = True

    def _read(self, event: Mapping[str, Any]) -> None:
        """Count what an event shows of the text, thoughts and arguments that the model wrote."""
        choices = event.get("choices")
        choices = choices if isinstance(choices, list) else []
        length = _length(event.get("delta")) + sum(_length(_object(one, "delta")) for one in choices)
        self._pieces += bool(length)
        self._in_pieces += length
        if event.get("type") == "response.output_item.done":
            self._in_items += _length(event.get("item"))

    def _take(self, usage: Mapping[str, Any]) -> None:
        details = _object(usage, "prompt_tokens_details") or _object(usage, "input_tokens_details")
        told = {
            "input": usage.get("input_tokens", usage.get("prompt_tokens")),
            "output": usage.get("output_tokens", usage.get("completion_tokens")),
            "read": usage.get("cache_read_input_tokens", details.get("cached_tokens")),
            "written": usage.get("cache_creation_input_tokens"),
        }
        for name, count in told.items():
            if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                self._found[name] = count
        if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
            self._found["beside"] = 1


def _object(value: object, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _length(value: object, depth: int = 0) -> int:
    """Bytes of the texts in what a model wrote."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if depth > _DEEPEST:
        return 0
    if isinstance(value, list):
        return sum(_length(one, depth + 1) for one in value)
    if isinstance(value, dict):
        return sum(_length(one, depth + 1) for key, one in value.items() if key not in _TEXTLESS)
    return 0
