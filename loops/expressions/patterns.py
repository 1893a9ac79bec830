"""Regular expressions in expressions, within what a rendering may do."""

from typing import Any

from loops.expressions.evaluation import Evaluation
from loops.expressions.faults import fault
from loops.expressions.notation import HogValue
from loops.expressions.regular import LONGEST_PATTERN, PatternError, compiled, refusal

# What compiling a character of a pattern costs. At worst RE2 tries every instruction of the compiled pattern at every
# byte of the text; so many of them cost as much as one byte that is read.
_COMPILING = 500
_INSTRUCTIONS = 8


def pattern_fault(pattern: HogValue) -> str:
    """What is wrong with a pattern that stands in a source; "" if nothing."""
    return _wrong(pattern)[0]


def _wrong(pattern: HogValue) -> tuple[str, str]:
    if not isinstance(pattern, str):
        return "the pattern must be a text", ""
    if len(pattern) > LONGEST_PATTERN:
        return f"the pattern has {len(pattern):,} characters, over the limit of {LONGEST_PATTERN:,}", "use several"
    try:
        _compiled(pattern)
    except PatternError as error:
        what, mend = refusal(error)
        return f"the pattern {pattern[:80]!r} cannot be used: {what}", mend
    return "", ""


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
    wrong, mend = _wrong(pattern)
    if wrong:
        raise fault(wrong, mend)
    expression = _compiled(pattern)
    encoded = text.encode("utf-8", "replace")
    evaluation.spend(len(encoded) * (1 + expression.programsize // _INSTRUCTIONS))
    return expression.search(encoded)


def _compiled(pattern: str) -> Any:  # noqa: ANN401
    return compiled(pattern.encode("utf-8", "replace"), captures=True)
