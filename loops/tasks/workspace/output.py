"""What is kept of an output that may have no end."""

from collections.abc import Iterator

MOST_LINE = 8 << 20
"""Bytes of a line that are told; what is longer is cut there."""


class Kept:
    """The head and the tail of an output, each half of `limit` bytes, and how much came in all."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.seen = 0

    def add(self, piece: bytes) -> None:
        """Take what came next."""
        self.seen += len(piece)
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def lost(self) -> int:
        """Bytes between head and tail that are not kept."""
        return self.seen - len(self._head) - len(self._tail[-self._half :])

    @property
    def content(self) -> bytes:
        """What is kept, with a line that says so where something is missing."""
        tail = bytes(self._tail[-self._half :])
        gap = b"\n[... %d bytes left out ...]\n" % self.lost if self.lost else b""
        return bytes(self._head) + gap + tail


class Lines:
    """Whole lines of an output that comes in pieces, without their ends."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def add(self, piece: bytes) -> Iterator[bytes]:
        """The lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._grow(part)
            yield self._take()
        self._grow(rest)

    def end(self) -> Iterator[bytes]:
        """The last line, where it has no end."""
        if self._begun:
            yield self._take()

    def _grow(self, part: bytes) -> None:
        self._begun += part[: MOST_LINE - len(self._begun)]

    def _take(self) -> bytes:
        line = bytes(self._begun)
        self._begun.clear()
        return line
