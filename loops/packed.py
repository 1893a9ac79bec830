"""JSON as the database keeps what is large of it."""

from typing import Any

import msgspec
import zstandard


def pack(value: object) -> bytes:
    """Compressed JSON, as events are stored."""
    return zstandard.ZstdCompressor(level=1).compress(msgspec.json.encode(value))


def unpack(body: bytes | None) -> Any:  # noqa: ANN401
    """The value of compressed JSON; None where retention has removed it."""
    return None if body is None else msgspec.json.decode(zstandard.ZstdDecompressor().decompress(body))
