"""Text and values that every database holds. NUL and lone surrogates become U+FFFD: SQLite, Postgres or UTF-8 refuse
them. JSON has no number that is not finite: it becomes null."""

import json
import re
from hashlib import sha256

from loops.event import JsonValue

MOST_KEY_BYTES = 1000
"""Of a text that is looked up by: Postgres has no index entry of over 2,700 bytes. What senders mean is far shorter."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile("[\ud800-\udfff]")
# Of a text that is searched: between two parts other threads have their turn.
_PART = 64 * 1024


def storable_text(text: str) -> str:
    """The text itself, or a copy with U+FFFD for each character that cannot be stored."""
    if "\0" in text:
        text = text.replace("\0", _REPLACEMENT)
    if _is_unicode(text):
        return text
    return "".join(_SURROGATE.sub(_REPLACEMENT, text[at : at + _PART]) for at in range(0, len(text), _PART))


def _is_unicode(text: str) -> bool:
    """Whether it holds no surrogate: UTF-8 has none."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    if "\\u0000" in text or not _is_unicode(text):
        return _replaced(value)
    return value  # type: ignore[return-value]  # JSON was made of it


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
