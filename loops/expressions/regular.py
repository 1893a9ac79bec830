"""Regular expressions by RE2, whose time grows with the text alone, so that no pattern can hang the service."""

from functools import lru_cache
from typing import Any

import re2

LONGEST_PATTERN = 1_000
"""Characters that a pattern may have."""

PatternError = re2.error
"""What `compiled` raises for a pattern that RE2 does not take; see `refusal`."""

_MEMORY = 1 << 20  # bytes that one compiled pattern may take
_KEPT = 1024
_LACKING = (
    ("(?=", "lookahead is not supported", "two filters or conditions may each ask for one part"),
    ("(?!", "lookahead is not supported", "ask for what may not match by itself"),
    ("(?<=", "lookbehind is not supported", "match the text before it too"),
    ("(?<!", "lookbehind is not supported", "ask for what may not match by itself"),
    ("(?>", "atomic groups are not supported", "use (?:…): no pattern is slow here"),
    ("(?(", "conditional groups are not supported", "use several patterns"),
    ("(?#", "comments are not supported", "leave it out"),
)


@lru_cache(_KEPT)
def compiled(pattern: bytes, *, captures: bool) -> Any:  # noqa: ANN401 - the library has no types
    """The pattern in UTF-8, compiled to be searched for in bytes: a text with a lone surrogate has no other form in
    which it could be searched. Without `captures`, groups are not told apart, which is faster."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)


def refusal(error: Exception) -> tuple[str, str]:
    """Why RE2 does not take a pattern, and what to write instead."""
    told = error.args[0] if error.args else b""
    reason = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    for opening, message, mend in _LACKING:
        if opening in reason:
            return f"{message} ({reason})", mend
    if "invalid escape sequence" in reason and reason[-1:].isdecimal():
        return f"backreferences are not supported ({reason})", "write the text again"
    if "too large" in reason or "repetition size" in reason:
        return reason, "repeat at most 1000 times"
    return reason, "patterns are written as RE2 has them"
