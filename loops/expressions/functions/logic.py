"""Functions that choose, compare and tell what a value is."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from loops.expressions.coercion import contains, less, less_or_equal, same, truthy
from loops.expressions.evaluation import Evaluation, Run
from loops.expressions.faults import fault
from loops.expressions.functions.function import AnyFunction, Function, is_list, lazy, plain
from loops.expressions.notation import HogValue, as_json

_ERROR = "__hogError__"


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


def any_of(runs: Sequence[Run]) -> Run:
    """`or(...)`, also written between its operands."""
    return lambda evaluation: any(truthy(run(evaluation)) for run in runs)


def all_of(runs: Sequence[Run]) -> Run:
    """`and(...)`, also written between its operands."""
    return lambda evaluation: all(truthy(run(evaluation)) for run in runs)


def _multi_if(runs: Sequence[Run]) -> Run:
    if len(runs) % 2 == 0:
        pairs = "pairs of a condition and a value, then one value for the rest"
        raise fault(f"multiIf() takes {pairs}: an odd number of arguments, not {len(runs)}")
    *pairs_of_runs, otherwise = runs

    def run(evaluation: Evaluation) -> HogValue:
        for condition, value in zip(pairs_of_runs[::2], pairs_of_runs[1::2], strict=True):
            if truthy(condition(evaluation)):
                return value(evaluation)
        return otherwise(evaluation)

    return run


def _assume_not_null(value: HogValue) -> HogValue:
    if value is None:
        raise fault("assumeNotNull() got null", "give it another value with `??`")
    return value


def is_empty(value: HogValue) -> bool:
    """Whether it is null, or a text, list or map with nothing in it."""
    return value is None or (isinstance(value, (str, Sequence, Mapping)) and not value)


def _type_of(value: HogValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "float"
    if isinstance(value, str):
        return "string"
    if isinstance(value, Mapping):
        return "error" if value.get(_ERROR) is True else "object"
    if is_list(value):
        return "array"
    return "datetime" if isinstance(value, datetime) else "date"


def _error(name: HogValue, message: HogValue, payload: HogValue) -> HogValue:
    if not (name is None or isinstance(name, str)) or not (message is None or isinstance(message, str)):
        raise fault("an error needs texts for its type and message", "put anything else into its payload")
    return {
        _ERROR: True,
        "type": name or "Error",
        "message": message or "An error occurred",
        "payload": as_json(payload),
    }


def _named_error(name: str) -> Function:
    return plain(lambda message=None, payload=None: _error(name, message, payload), 0, 2)


def _print(runs: Sequence[Run]) -> Run:
    def run(evaluation: Evaluation) -> None:
        for argument in runs:
            argument(evaluation)

    return run


FUNCTIONS: Mapping[str, AnyFunction] = {
    "and": lazy(all_of, 2, None),
    "assumeNotNull": plain(_assume_not_null, 1),
    "coalesce": lazy(first_not_null, 1, None),
    "empty": plain(is_empty, 1),
    "equals": plain(same, 2),
    "Error": _named_error("Error"),
    "greater": plain(lambda a, b: less(b, a), 2),
    "greaterOrEquals": plain(lambda a, b: less_or_equal(b, a), 2),
    "HogError": plain(lambda name, message=None, payload=None: _error(name, message, payload), 1, 3),
    "if": lazy(conditional, 3, 3),
    "ifNull": lazy(first_not_null, 2, 2),
    "in": plain(lambda item, items: is_list(items) and contains(items, item), 2),
    "isNotNull": plain(lambda value: value is not None, 1),
    "isNull": plain(lambda value: value is None, 1),
    "less": plain(less, 2),
    "lessOrEquals": plain(less_or_equal, 2),
    "min2": plain(lambda a, b: a if less(a, b) else b, 2),
    "multiIf": lazy(_multi_if, 3, None),
    "notEmpty": plain(lambda value: not is_empty(value), 1),
    "notEquals": plain(lambda a, b: not same(a, b), 2),
    "NotImplementedError": _named_error("NotImplementedError"),
    "or": lazy(any_of, 2, None),
    "print": lazy(_print, 0, None),
    "RetryError": _named_error("RetryError"),
    "typeof": plain(_type_of, 1),
}
