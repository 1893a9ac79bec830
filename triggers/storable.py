"""Text that every store can hold. Lone surrogates and NUL become U+FFFD: SQLite, Postgres or UTF-8 refuse them."""

import re
from hashlib import sha256

from loops.event import JsonValue

MOST_KEY_BYTES = 1000
"""Of a text that is looked up by: Postgres has no index entry of over 2,700 bytes. What senders mean is far shorter."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def storable_text(text: str) -> str:
    """The text itself, or a copy with U+FFFD for each character that cannot be stored."""
    if text.isascii() and "\0" not in text:
        return text
    if "\0" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _NOT_STORABLE.sub(_REPLACEMENT, text)


def key_text(text: str) -> str:
    """Storable text that every index takes: a longer one keeps its beginning and has a digest of all of it behind, so
    that two that differ stay two."""
    text = storable_text(text)
    if len(text) * 4 <= MOST_KEY_BYTES or len(encoded := text.encode()) <= MOST_KEY_BYTES:
        return text
    digest = sha256(encoded).hexdigest()
    return f"{encoded[: MOST_KEY_BYTES - len(digest) - 3].decode('utf-8', 'ignore')}…{digest}"


def storable(value: JsonValue) -> JsonValue:
    """A copy of the value with every text in it, keys too, made storable."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {storable_text(key): storable(item) for key, item in value.items()}
    return value
