"""The functions of Hog. One more is one entry in FUNCTIONS."""

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Never

from loops.expressions.coercion import contains, epoch_seconds, to_number, truthy
from loops.expressions.evaluation import MAX_OUTPUT, Evaluation, Run, check_length, joined, size
from loops.expressions.faults import fault
from loops.expressions.moments import format_hog, in_zone, to_moment, zone_named
from loops.expressions.notation import HogValue, Number, hog_text
from loops.expressions.operators import settled

_LEADING_INT = re.compile(r"\s*([+-]?\d{1,300})", re.ASCII)
_LEADING_FLOAT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
# What a character of JSON costs to read and indent.
_INDENTING = 4


@dataclass(frozen=True, slots=True)
class Function:
    """How many arguments a function takes (`most` None: any number), and how a call of it becomes a Run."""

    bind: Callable[[Sequence[Run]], Run]
    least: int
    most: int | None

    def wrong_count(self, count: int) -> str:
        """What is wrong with that many arguments; "" if nothing."""
        if count >= self.least and (self.most is None or count <= self.most):
            return ""
        if self.most is None:
            wanted = f"at least {self.least}"
        else:
            wanted = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"takes {wanted} argument{'' if wanted == '1' else 's'}, not {count}"


def nearest(name: str) -> str:
    """The hint for an unknown function: the known one that it resembles most."""
    by_lower = {known.lower(): known for known in FUNCTIONS}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"did you mean {by_lower[found[0]]}()?" if found else f"known: {', '.join(sorted(FUNCTIONS))}"


def _plain(
    call: Callable[..., HogValue], least: int, most: int | None = None, *, texts: Collection[int] = ()
) -> Function:
    """A function of values. `most` left out is `least`; `texts` are the arguments whose lists and maps become text."""

    def bind(runs: Sequence[Run]) -> Run:
        def run(evaluation: Evaluation) -> HogValue:
            values = [argument(evaluation) for argument in runs]
            evaluation.spend(1 + sum(map(size, values)))
            for place in texts:
                if place < len(values):
                    values[place] = evaluation.flat(values[place])
            result = call(*values)
            return evaluation.made(result) if isinstance(result, str) else result

        return run

    return Function(bind, least, least if most is None else most)


def _lazy(bind: Callable[[Sequence[Run]], Run], least: int, most: int | None) -> Function:
    """A function that decides itself which of its arguments are evaluated."""
    return Function(bind, least, most)


def conditional(runs: Sequence[Run]) -> Run:
    """`if(condition, then, else)`, also written with `?` and `:`."""
    condition, then, otherwise = runs
    return lambda evaluation: (then if truthy(condition(evaluation)) else otherwise)(evaluation)


def first_not_null(runs: Sequence[Run]) -> Run:
    """`coalesce(...)`, also written with `??`."""

    def run(evaluation: Evaluation) -> HogValue:
        for argument in runs:
            value = argument(evaluation)
            if value is not None:
                return value
        return None

    return run


def _now(runs: Sequence[Run]) -> Run:
    if not runs:
        return Evaluation.now
    zone = runs[0]
    return lambda evaluation: in_zone(evaluation.now(), zone_named(zone(evaluation)))


def _refuse(function: str, needed: str, value: HogValue) -> Never:
    raise fault(f"{function}() needs {needed}, not {_kind(value)}", "give it another value with `??`")


def _kind(value: HogValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, date):
        return "a date"
    return "a map" if isinstance(value, Mapping) else "a list"


def _text(function: str, value: HogValue) -> str:
    return value if isinstance(value, str) else _refuse(function, "a text", value)


def _lower(value: HogValue) -> HogValue:
    return None if value is None else _text("lower", value).lower()


def _upper(value: HogValue) -> HogValue:
    return _text("upper", value).upper()


def _length(value: HogValue) -> HogValue:
    if isinstance(value, (str, Sequence, Mapping)):
        return len(value)
    _refuse("length", "a text, a list or a map", value)


def _is_empty(value: HogValue) -> bool:
    return value is None or (isinstance(value, (str, Sequence, Mapping)) and not value)


def _to_int(value: HogValue) -> HogValue:
    if isinstance(value, date):
        return math.floor(epoch_seconds(value) / (1 if isinstance(value, datetime) else 86_400))
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if math.isfinite(value) else None
    match = _LEADING_INT.match(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def _to_float(value: HogValue) -> HogValue:
    if isinstance(value, date):
        return epoch_seconds(value) if isinstance(value, datetime) else epoch_seconds(value) // 86_400
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return settled(value)
    match = _LEADING_FLOAT.match(value) if isinstance(value, str) else None
    return settled(float(match[1])) if match else None


def _trim(value: HogValue, character: HogValue = None) -> HogValue:
    text = _text("trim", value)
    stripped = " " if character is None else hog_text(character, MAX_OUTPUT)
    return text.strip(stripped) if len(stripped) == 1 else ""


def _replace_all(value: HogValue, wanted: HogValue, replacement: HogValue) -> HogValue:
    text, old = _text("replaceAll", value), hog_text(wanted, MAX_OUTPUT)
    new = hog_text(replacement, MAX_OUTPUT)
    count = text.count(old)
    check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new)


def _split_by_string(separator: HogValue, value: HogValue, most: HogValue = None) -> HogValue:
    text, between = _text("splitByString", value), _text("splitByString", separator)
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
    return int(number) if number is not None and math.isfinite(number) else None


def _position(value: HogValue, wanted: HogValue) -> HogValue:
    return value.find(hog_text(wanted, MAX_OUTPUT)) + 1 if isinstance(value, str) else 0


def _json_stringify(runs: Sequence[Run]) -> Run:
    def run(evaluation: Evaluation) -> HogValue:
        value, *rest = [argument(evaluation) for argument in runs]
        text = evaluation.json(value)
        indent = rest[0] if rest else None
        width = to_number(indent) if isinstance(indent, (int, float)) else None
        if not width or width < 1:
            return text
        evaluation.spend(_INDENTING * len(text))
        return evaluation.made(_indented(text, int(min(width, 10))))

    return run


def _indented(text: str, width: int) -> str:
    chunks: list[str] = []
    length = 0
    try:
        for chunk in json.JSONEncoder(ensure_ascii=False, indent=width).iterencode(json.loads(text)):
            length += len(chunk)
            check_length(length)  # here, as deep lists indent to many times their own length
            chunks.append(chunk)
    except RecursionError:
        raise fault("jsonStringify() cannot indent a value nested so deeply") from None
    return "".join(chunks)


def _json_parse(value: HogValue) -> HogValue:
    if not isinstance(value, str):
        return value
    try:
        parsed: HogValue = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise fault(f"jsonParse() got {_kind(value)}, which is not JSON") from None
    return parsed


def _no_constant(name: str) -> Never:
    raise ValueError(name)


def _format_date_time(value: HogValue, pattern: HogValue, zone: HogValue = None) -> HogValue:
    moment = to_moment(value)
    if moment is None:
        _refuse("formatDateTime", "a date, ISO text or epoch seconds", value)
    format_text = _text("formatDateTime", pattern)
    return format_hog(moment if zone is None else in_zone(moment, zone_named(zone)), format_text)


def _to_date_time(value: HogValue, zone: HogValue = None) -> HogValue:
    where = UTC if zone is None else zone_named(zone)
    moment = to_moment(value, where)
    if moment is None:
        _refuse("toDateTime", "ISO text such as 2026-03-20T15:30:00Z or epoch seconds", value)
    return moment if zone is None else in_zone(moment, where)


def _half_up(number: Number) -> int:
    return number if isinstance(number, int) else math.floor(number + 0.5)


def _rounded(value: HogValue, rounding: Callable[[Number], int]) -> HogValue:
    number = to_number(value)
    if number is None or not math.isfinite(number):
        return math.nan if number is None else number
    return settled(rounding(number))


def _has(items: HogValue, item: HogValue) -> bool:
    return isinstance(items, Sequence) and not isinstance(items, str) and contains(items, item)


FUNCTIONS: Mapping[str, Function] = {
    "coalesce": _lazy(first_not_null, 1, None),
    "concat": _lazy(joined, 1, None),
    "empty": _plain(_is_empty, 1),
    "floor": _plain(lambda value: _rounded(value, math.floor), 1),
    "formatDateTime": _plain(_format_date_time, 2, 3),
    "has": _plain(_has, 2),
    "if": _lazy(conditional, 3, 3),
    "ifNull": _lazy(first_not_null, 2, 2),
    "isNotNull": _plain(lambda value: value is not None, 1),
    "isNull": _plain(lambda value: value is None, 1),
    "jsonParse": _plain(_json_parse, 1),
    "jsonStringify": _lazy(_json_stringify, 1, 2),
    "length": _plain(_length, 1),
    "lower": _plain(_lower, 1),
    "notEmpty": _plain(lambda value: not _is_empty(value), 1),
    "now": _lazy(_now, 0, 1),
    "position": _plain(_position, 2, texts=(1,)),
    "replaceAll": _plain(_replace_all, 3, texts=(1, 2)),
    "round": _plain(lambda value, _digits=None: _rounded(value, _half_up), 1, 2),
    "splitByString": _plain(_split_by_string, 2, 3),
    "substring": _plain(_substring, 2, 3),
    "toDateTime": _plain(_to_date_time, 1, 2),
    "toFloat": _plain(_to_float, 1),
    "toInt": _plain(_to_int, 1),
    "toString": _plain(lambda value: hog_text(value, MAX_OUTPUT), 1, 2, texts=(0,)),
    "trim": _plain(_trim, 1, 2, texts=(1,)),
    "upper": _plain(_upper, 1),
}
