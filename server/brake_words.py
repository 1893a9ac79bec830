"""What holds a workflow's trigger back, in words: for its page."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from loops.definition.brakes import Brakes, stored_brakes
from loops.definition.schema.brakes import Debounce, Overlap, RateLimit
from loops.errors import DefinitionError
from triggers.brakes import span


def brake_words(definition: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The brakes of a stored definition, in the order in which they are applied: a name and what it does."""
    try:
        brakes = stored_brakes(definition)
    except DefinitionError:
        brakes = Brakes()  # it is told elsewhere that the definition cannot be used
    found: list[tuple[str, str]] = []
    masking = definition.get("trigger_masking")
    if isinstance(masking, Mapping):
        found.append(("mask", _masking(masking)))
    if brakes.rate_limit is not None:
        found.append(("rate limit", _rate_limit(brakes.rate_limit)))
    if brakes.debounce is not None:
        found.append(("debounce", _debounce(brakes.debounce)))
    if brakes.overlap is not None:
        found.append(("overlap", _overlap(brakes.overlap)))
    return tuple(found)


def _masking(masking: Mapping[str, Any]) -> str:
    ttl, threshold = masking.get("ttl"), masking.get("threshold")
    window = f" within {_span(ttl)}" if isinstance(ttl, int) else ""
    often = f"one of {threshold} matches" if isinstance(threshold, int) and threshold > 1 else "one match"
    return f"{often} of the same {masking.get('hash')}{window}"


def _rate_limit(rule: RateLimit) -> str:
    return f"{rule.count} event{'' if rule.count == 1 else 's'} within {_span(rule.period)}{_by(rule.key)}"


def _debounce(rule: Debounce) -> str:
    quiet, longest = _span(rule.quiet), _span(rule.longest)
    return f"the last event, once none has come for {quiet}, {longest} after the first at most{_by(rule.key)}"


def _overlap(rule: Overlap) -> str:
    maximum = getattr(rule, "maximum", 0)
    words = {
        "skip": "one run at a time; what comes meanwhile starts none",
        "queue": f"one run at a time; up to {maximum} wait",
        "restart": "one run at a time; a newer one replaces it",
        "parallel": f"up to {maximum} run{'' if maximum == 1 else 's'} at a time",
    }
    return f"{words[rule.policy]}{_by(rule.key)}"


def _span(seconds: int) -> str:
    return span(timedelta(seconds=seconds))


def _by(key: str | None) -> str:
    return f", for each {key}" if key else ""
