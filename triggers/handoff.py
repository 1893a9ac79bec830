"""What was just accepted in this process, so that dispatch need not read and decode it again.

Only a shortcut: what is not here, after a restart or when it was full, is read from the database.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

MOST_BYTES = 64 * 1024 * 1024


class Held(NamedTuple):
    """An accepted delivery's raw body and the source's decode of it."""

    headers: Mapping[str, str]
    body: bytes
    parsed: object


class Handoff:
    """Bounded by the bytes it holds."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()

    def put(self, delivery_id: str, held: Held) -> None:
        """Keep it, if there is room."""
        with self._lock:
            if self._size + len(held.body) <= self._most:
                self._held[delivery_id] = held
                self._size += len(held.body)

    def take(self, delivery_id: str) -> Held | None:
        """Give it away."""
        with self._lock:
            held = self._held.pop(delivery_id, None)
            if held is not None:
                self._size -= len(held.body)
            return held
