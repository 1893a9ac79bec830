"""Functions of numbers."""

import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from loops.expressions.coercion import epoch_seconds, to_number
from loops.expressions.evaluation import Evaluation, Run
from loops.expressions.faults import fault
from loops.expressions.functions.function import AnyFunction, lazy, plain, refuse, whole_of
from loops.expressions.notation import HogValue, Number
from loops.expressions.operators import OPERATORS, settled

_LEADING_INT = re.compile(r"\s*([+-]?\d{1,300})", re.ASCII)
_LEADING_FLOAT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_MOST_IN_RANGE = 100_000
# What an item of a range costs: it is a value of its own and not only a place for one.
_NUMBER = 16
_RANDOM = secrets.SystemRandom()


def to_int(value: HogValue) -> HogValue:
    """The whole number that the value is or that a text begins with, else null."""
    if isinstance(value, date):
        return math.floor(epoch_seconds(value) / (1 if isinstance(value, datetime) else 86_400))
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) or math.isfinite(value) else None
    match = _LEADING_INT.match(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def to_float(value: HogValue) -> HogValue:
    """The number that the value is or that a text begins with, else null."""
    if isinstance(value, date):
        return epoch_seconds(value) if isinstance(value, datetime) else epoch_seconds(value) // 86_400
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return settled(value)
    match = _LEADING_FLOAT.match(value) if isinstance(value, str) else None
    return settled(float(match[1])) if match else None


def _half_up(number: Number) -> int:
    return number if isinstance(number, int) else math.floor(number + 0.5)


def _rounded(value: HogValue, rounding: Callable[[Number], int]) -> HogValue:
    number = to_number(value)
    number = math.nan if number is None else settled(number)
    return settled(rounding(number)) if math.isfinite(number) else number


def _calculated(function: str, sign: str) -> Callable[[HogValue, HogValue], HogValue]:
    """The operator as a function. What is no number is refused here: nobody would look for null."""

    def calculate(a: HogValue, b: HogValue) -> HogValue:
        for value in (a, b):
            if isinstance(value, str) and to_number(value) is None:
                refuse(function, "numbers", value)
        return OPERATORS[sign](a, b)

    return calculate


def _range(runs: Sequence[Run]) -> Run:
    def run(evaluation: Evaluation) -> HogValue:
        bounds = [whole_of("range", argument(evaluation)) for argument in runs]
        first, end = bounds if len(bounds) == 2 else (0, bounds[0])
        count = max(0, end - first)
        if count > _MOST_IN_RANGE:
            raise fault(f"range() makes at most {_MOST_IN_RANGE:,} numbers, not {count:,}")
        evaluation.spend(_NUMBER * count)
        return list(range(first, end))

    return run


FUNCTIONS: Mapping[str, AnyFunction] = {
    "floor": plain(lambda value: _rounded(value, math.floor), 1),
    "minus": plain(_calculated("minus", "-"), 2),
    "plus": plain(_calculated("plus", "+"), 2),
    "randomFloat": plain(_RANDOM.random, 0),
    "range": lazy(_range, 1, 2),
    "round": plain(lambda value, _digits=None: _rounded(value, _half_up), 1, 2),
    "toFloat": plain(to_float, 1),
    "toInt": plain(to_int, 1),
}
