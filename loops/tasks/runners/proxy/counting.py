"""Counts the tokens of an answer as it passes, a stream of events or one JSON document."""

import json
from collections.abc import Mapping
from typing import Any

from loops.agent.budget import tokens_of
from loops.agent.transcript import Usage

MOST_DOCUMENT = 16 << 20
_MOST_LINE = 1 << 20


class AnswerCounter:
    """Takes an answer in pieces. It knows both APIs by the names that they count with."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._rest = bytearray()
        self._found: dict[str, int] = {}
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Take what came next."""
        self._size += len(piece)
        if not self._is_stream:
            self._rest += piece[: MOST_DOCUMENT - len(self._rest)]
            return
        *lines, rest = (self._rest + piece).split(b"\n")
        self._rest = bytearray(rest[-_MOST_LINE:])
        for line in lines:
            if line.startswith(b"data:") and b'usage"' in line:
                self._look(line.removeprefix(b"data:"))

    def usage(self, most: Usage) -> Usage:
        """What the answer used; an estimate where it did not say, with the input of `most`."""
        if not self._is_stream:
            self._look(self._rest)
        if "input" not in self._found:
            # JSON around a piece of text makes a stream several times longer than what it says.
            return Usage(most.input, tokens_of(self._size // (8 if self._is_stream else 1)), estimated=True)
        found = self._found
        read, written = found.get("read", 0), found.get("written", 0)
        # Anthropic counts what was cached beside its input, OpenAI inside it.
        whole = found["input"] + (read + written if "beside" in found else 0)
        return Usage(whole, found.get("output", 0), read, written)

    def _look(self, text: bytes | bytearray) -> None:
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        for holder in (event, _object(event, "message"), _object(event, "response")):
            self._take(_object(holder, "usage"))

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
