"""Regular expressions, by RE2: its time grows with the text alone, whatever the pattern."""

from functools import lru_cache
from typing import Any

import re2

from loops.expressions.evaluation import Evaluation
from loops.expressions.faults import fault
from loops.expressions.notation import HogValue

LONGEST_PATTERN = 1_000
"""Characters that a pattern may have."""

_MEMORY = 2 << 20  # bytes that one compiled pattern may take
_KEPT = 256
# What compiling a character of a pattern costs. At worst RE2 tries every instruction of the compiled pattern at every
# byte of the text; so many of them cost as much as one byte that is read.
_COMPILING = 500
_INSTRUCTIONS = 8


def pattern_fault(pattern: HogValue) -> str:
    """What is wrong with a pattern that stands in a source; "" if nothing."""
    if not isinstance(pattern, str):
        return "the pattern must be a text"
    if len(pattern) > LONGEST_PATTERN:
        return f"the pattern has {len(pattern):,} characters, over the limit of {LONGEST_PATTERN:,}"
    try:
        _compiled(pattern)
    except re2.error as error:
        told = error.args[0]
        why = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        return f"the pattern {pattern[:80]!r} cannot be used: {why}"
    return ""


def searched(evaluation: Evaluation, text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises TemplateError for a pattern that RE2 does not take."""
    return _search(evaluation, text, pattern) is not None


def extracted(evaluation: Evaluation, text: str, pattern: str) -> str:
    """What the pattern's first group matched, or the whole match where it has none; "" where nothing matches."""
    found = _search(evaluation, text, pattern)
    if found is None:
        return ""
    matched: bytes | None = found.group(1 if found.re.groups else 0)
    return "" if matched is None else matched.decode("utf-8", "replace")


def _search(evaluation: Evaluation, text: str, pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    evaluation.spend(_COMPILING * min(len(pattern), LONGEST_PATTERN))
    if wrong := pattern_fault(pattern):
        raise fault(wrong, "lookahead, lookbehind and back references are not in RE2")
    expression = _compiled(pattern)
    encoded = text.encode("utf-8", "replace")
    evaluation.spend(len(encoded) * (1 + expression.programsize // _INSTRUCTIONS))
    return expression.search(encoded)


@lru_cache(_KEPT)
def _compiled(pattern: str) -> Any:  # noqa: ANN401
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    # Bytes, as a text with a lone surrogate has no other form in which it could be searched.
    return re2.compile(pattern.encode("utf-8", "replace"), options)
