"""Functions that read and write JSON. A path is keys of objects and places in lists: from 1, below 0 from the end."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Never, TypeAlias

from loops.expressions.coercion import to_number
from loops.expressions.evaluation import Evaluation, Run, check_length, size
from loops.expressions.faults import fault
from loops.expressions.functions.function import AnyFunction, is_list, kind, lazy
from loops.expressions.functions.numbers import to_float, to_int
from loops.expressions.notation import HogValue, is_container

# What a character of JSON costs to read and indent, and to read and make values of.
_INDENTING = 4
_PARSING = 4


class _Absent:
    """What lies at the end of a path that leads nowhere: not the same as null."""


_ABSENT = _Absent()
_Found: TypeAlias = "HogValue | _Absent"
_Read: TypeAlias = Callable[[Evaluation, _Found], HogValue]


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


def _json_parse(runs: Sequence[Run]) -> Run:
    (argument,) = runs

    def run(evaluation: Evaluation) -> HogValue:
        value = argument(evaluation)
        parsed = _parsed(evaluation, value)
        if isinstance(parsed, _Absent):
            raise fault(f"jsonParse() got {kind(value)}, which is not JSON")
        return parsed

    return run


def _parsed(evaluation: Evaluation, value: HogValue) -> _Found:
    """The value of a JSON text; any other value is its own."""
    if not isinstance(value, str):
        return value
    evaluation.spend(_PARSING * len(value))
    try:
        parsed: HogValue = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _ABSENT
    return parsed


def _no_constant(name: str) -> Never:
    raise ValueError(name)


def _below(value: _Found, key: HogValue) -> _Found:
    if isinstance(value, _Absent):
        return value
    if isinstance(value, Mapping):
        return value.get(key, _ABSENT) if isinstance(key, str) else _ABSENT
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not is_list(value) or not isinstance(key, int) or isinstance(key, bool) or key == 0:
        return _ABSENT
    index = key - 1 if key > 0 else len(value) + key
    return value[index] if 0 <= index < len(value) else _ABSENT


def _reading(found: _Read, *, typed: bool = False) -> AnyFunction:
    """A function that reads what a path leads to. `typed`: its last argument is the type that ClickHouse wants to be
    told; here values have theirs."""

    def bind(runs: Sequence[Run]) -> Run:
        first, *path = runs[:-1] if typed else runs

        def run(evaluation: Evaluation) -> HogValue:
            target = _parsed(evaluation, first(evaluation))
            for key in path:
                evaluation.spend(1)
                target = _below(target, key(evaluation))
            evaluation.spend(1 if isinstance(target, _Absent) else 1 + size(target))
            return found(evaluation, target)

        return run

    return lazy(bind, 2 if typed else 1, None)


def _json_has(runs: Sequence[Run]) -> Run:
    """Texts on the way are read as JSON too."""
    first, *path = runs

    def run(evaluation: Evaluation) -> HogValue:
        target: _Found = first(evaluation)
        for key in path:
            evaluation.spend(1)
            current = _ABSENT if isinstance(target, _Absent) else _parsed(evaluation, target)
            target = _below(current, key(evaluation))
        return not isinstance(target, _Absent)

    return run


def _is_valid_json(runs: Sequence[Run]) -> Run:
    (argument,) = runs

    def run(evaluation: Evaluation) -> HogValue:
        value = argument(evaluation)
        return not is_container(value) and not isinstance(_parsed(evaluation, value), _Absent)

    return run


def _any(_evaluation: Evaluation, found: _Found) -> HogValue:
    return None if isinstance(found, _Absent) else found


def _array(_evaluation: Evaluation, found: _Found) -> HogValue:
    return None if isinstance(found, _Absent) or not is_list(found) else found


def _bool(_evaluation: Evaluation, found: _Found) -> HogValue:
    return found is True


def _float(_evaluation: Evaluation, found: _Found) -> HogValue:
    return None if isinstance(found, _Absent) else to_float(found)


def _int(_evaluation: Evaluation, found: _Found) -> HogValue:
    return None if isinstance(found, _Absent) else to_int(found)


def _length(_evaluation: Evaluation, found: _Found) -> HogValue:
    return 0 if isinstance(found, _Absent) or not is_container(found) else size(found)


def _text(evaluation: Evaluation, found: _Found) -> HogValue:
    if found is None or isinstance(found, _Absent):
        return None
    return evaluation.json(found) if is_container(found) else evaluation.text(found)


FUNCTIONS: Mapping[str, AnyFunction] = {
    "isValidJSON": lazy(_is_valid_json, 1, 1),
    "JSONExtract": _reading(_any, typed=True),
    "JSONExtractArrayRaw": _reading(_array),
    "JSONExtractBool": _reading(_bool),
    "JSONExtractFloat": _reading(_float),
    "JSONExtractInt": _reading(_int),
    "JSONExtractString": _reading(_text),
    "JSONHas": lazy(_json_has, 2, None),
    "JSONLength": _reading(_length),
    "jsonParse": lazy(_json_parse, 1, 1),
    "jsonStringify": lazy(_json_stringify, 1, 2),
}
