"""Functions of texts."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from loops.expressions.coercion import to_number
from loops.expressions.evaluation import MAX_OUTPUT, Evaluation, Run, check_length, joined
from loops.expressions.functions.function import AnyFunction, is_list, lazy, plain, text_of
from loops.expressions.notation import HogValue, hog_text
from loops.expressions.operators import like, settled
from loops.expressions.patterns import extracted, pattern_fault, searched

# What a character costs where each may become an item of its own.
_SPLITTING = 8


def _lower(value: HogValue) -> HogValue:
    return None if value is None else text_of("lower", value).lower()


def _upper(value: HogValue) -> HogValue:
    return text_of("upper", value).upper()


def _reverse(value: HogValue) -> HogValue:
    return text_of("reverse", value)[::-1]


def _trimmed(function: str, strip: Callable[[str, str], str], value: HogValue, character: HogValue = None) -> HogValue:
    text = text_of(function, value)
    stripped = " " if character is None else hog_text(character, MAX_OUTPUT)
    return strip(text, stripped) if len(stripped) == 1 else ""


def _replaced(function: str, most: int, value: HogValue, wanted: HogValue, replacement: HogValue) -> HogValue:
    text, old = text_of(function, value), hog_text(wanted, MAX_OUTPUT)
    new = hog_text(replacement, MAX_OUTPUT)
    count = text.count(old) if most < 0 else min(most, text.count(old))
    check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, most)


def _split_by_string(separator: HogValue, value: HogValue, most: HogValue = None) -> HogValue:
    text, between = text_of("splitByString", value), text_of("splitByString", separator)
    pieces = text.split(between) if between else list(text)
    limit = _index(most)
    return pieces if limit is None or limit < 0 else pieces[:limit]


def _substring(value: HogValue, start: HogValue, length: HogValue = None) -> HogValue:
    first, count = _index(start), _index(length)
    if not isinstance(value, str) or first is None or first < 1 or (count is not None and count < 0):
        return ""
    return value[first - 1 :] if count is None else value[first - 1 : first - 1 + count]


def _index(value: HogValue) -> int | None:
    number = to_number(value) if value is not None else None
    return int(number) if number is not None and math.isfinite(settled(number)) else None


def _position(value: HogValue, wanted: HogValue) -> HogValue:
    return value.find(hog_text(wanted, MAX_OUTPUT)) + 1 if isinstance(value, str) else 0


def _position_folded(value: HogValue, wanted: HogValue) -> HogValue:
    return value.lower().find(hog_text(wanted, MAX_OUTPUT).lower()) + 1 if isinstance(value, str) else 0


def _starts_with(value: HogValue, beginning: HogValue) -> bool:
    return isinstance(value, str) and isinstance(beginning, str) and value.startswith(beginning)


def _contains_any(runs: Sequence[Run]) -> Run:
    """1 or 0, as in ClickHouse, whose function this is."""
    haystack, wanted = runs

    def run(evaluation: Evaluation) -> HogValue:
        value, needles = haystack(evaluation), wanted(evaluation)
        if value is None or not is_list(needles):
            return 0
        text = evaluation.text(value).lower()
        for needle in needles:
            evaluation.spend(1 + len(text))
            if evaluation.text(needle).lower() in text:
                return 1
        return 0

    return run


def _match(runs: Sequence[Run]) -> Run:
    value, pattern = runs

    def run(evaluation: Evaluation) -> HogValue:
        text, source = value(evaluation), pattern(evaluation)
        if not text or not source:
            return False
        return searched(evaluation, evaluation.text(text), text_of("match", source))

    return run


def _extract(runs: Sequence[Run]) -> Run:
    value, pattern = runs

    def run(evaluation: Evaluation) -> HogValue:
        text, source = value(evaluation), pattern(evaluation)
        if text is None or source is None:
            return ""
        found = extracted(evaluation, evaluation.text(text), text_of("extractRegex", source))
        return evaluation.made(found)

    return run


_PATTERN = {1: pattern_fault}

FUNCTIONS: Mapping[str, AnyFunction] = {
    "concat": lazy(joined, 1, None),
    "extractRegex": lazy(_extract, 2, 2, checks=_PATTERN),
    "ilike": plain(partial(like, fold=True), 2, texts=(0, 1)),
    "like": plain(like, 2, texts=(0, 1)),
    "lower": plain(_lower, 1),
    "match": lazy(_match, 2, 2, checks=_PATTERN),
    "multiSearchAnyCaseInsensitive": lazy(_contains_any, 2, 2),
    "notILike": plain(lambda value, pattern: not like(value, pattern, fold=True), 2, texts=(0, 1)),
    "notLike": plain(lambda value, pattern: not like(value, pattern), 2, texts=(0, 1)),
    "position": plain(_position, 2, texts=(1,)),
    "positionCaseInsensitive": plain(_position_folded, 2, texts=(1,)),
    "replaceAll": plain(partial(_replaced, "replaceAll", -1), 3, texts=(1, 2)),
    "replaceOne": plain(partial(_replaced, "replaceOne", 1), 3, texts=(1, 2)),
    "reverse": plain(_reverse, 1),
    "splitByString": plain(_split_by_string, 2, 3, weight=_SPLITTING),
    "startsWith": plain(_starts_with, 2),
    "substring": plain(_substring, 2, 3),
    "toString": plain(lambda value, _rest=None: hog_text(value, MAX_OUTPUT), 1, 2, texts=(0,)),
    "toUUID": plain(lambda value: hog_text(value, MAX_OUTPUT), 1, texts=(0,)),
    "trim": plain(partial(_trimmed, "trim", str.strip), 1, 2, texts=(1,)),
    "trimLeft": plain(partial(_trimmed, "trimLeft", str.lstrip), 1, 2, texts=(1,)),
    "trimRight": plain(partial(_trimmed, "trimRight", str.rstrip), 1, 2, texts=(1,)),
    "upper": plain(_upper, 1),
}
