"""Text and values that every database holds. NUL and lone surrogates become U+FFFD: SQLite, Postgres or UTF-8 refuse
them. JSON has no number that is not finite: it becomes null."""

import json
import re
from hashlib import sha256

from loops.event import JsonValue

MOST_KEY_BYTES = 1000
"""Of a text that is looked up by: Postgres has no index entry of over 2,700 bytes. What senders mean is far shorter."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
_SUSPECT = re.compile("\\\\u0000|[\ud800-\udfff]")


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


def storable(value: object) -> JsonValue:
    """The value itself, or a copy of it with every text in it, keys too, made storable; what JSON cannot hold becomes
    text. Raises RecursionError for what is nested too deep to be JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return _replaced(value)
    return _replaced(value) if _SUSPECT.search(text) else value  # type: ignore[return-value]  # JSON was made of it


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
