"""What Hog's operators do to values."""

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from loops.expressions.coercion import contains, equals, less, less_or_equal, to_number
from loops.expressions.evaluation import MAX_OUTPUT, Evaluation, check_length, size
from loops.expressions.faults import fault
from loops.expressions.intervals import is_interval, moved
from loops.expressions.notation import EXPONENT_FROM, HogValue, Number, hog_text

Operator: TypeAlias = Callable[..., HogValue]

_EXACT_BELOW = 2**53
# Characters of the text times characters of the pattern: `_` compares each with each.
_MOST_COMPARISONS = 10_000_000


def settled(number: Number) -> Number:
    """A result as JavaScript's one kind of number would have it: whole floats are ints, vast ints are floats."""
    if isinstance(number, int):
        if -EXPONENT_FROM < number < EXPONENT_FROM:
            return number
        try:
            return float(number)
        except OverflowError:
            return math.inf if number > 0 else -math.inf
    return int(number) if abs(number) < _EXACT_BELOW and number.is_integer() else number


def negative(value: HogValue) -> Number:
    """The number with the other sign; NaN for what is no number."""
    number = to_number(value)
    return math.nan if number is None else settled(-number)


def like(value: HogValue, pattern: HogValue, *, fold: bool = False) -> bool:
    """SQL's LIKE as Hog has it: `%` is any text, `_` any character, and the match may lie anywhere in the value."""
    if value is None:
        return False
    text, wanted = hog_text(value, MAX_OUTPUT), hog_text(pattern, MAX_OUTPUT)
    if fold:
        text, wanted = text.lower(), wanted.lower()
    if "_" in wanted and len(text) * len(wanted) > _MOST_COMPARISONS:
        raise fault("like has too much to compare", "use a shorter pattern")
    # Where each part is found first decides: if the first place of one leads to no match, no later place does.
    place = 0
    for part in wanted.split("%"):
        place = _end_of(part, text, place)
        if place < 0:
            return False
    return True


def _end_of(part: str, text: str, start: int) -> int:
    if "_" not in part:
        found = text.find(part, start)
        return found if found < 0 else found + len(part)
    match = re.compile(".".join(map(re.escape, part.split("_"))), re.DOTALL).search(text, start)
    return match.end() if match else -1


def _counted(calculate: Callable[[Any, Any], Number]) -> Operator:
    """Arithmetic as JavaScript has it: NaN and infinities are numbers, and become null only where JSON begins."""

    def run(a: HogValue, b: HogValue) -> HogValue:
        left, right = to_number(a), to_number(b)
        if left is None or right is None:
            return math.nan
        try:
            return settled(calculate(settled(left), settled(right)))
        except (ArithmeticError, ValueError):
            return math.nan

    return run


_sum, _difference = _counted(operator.add), _counted(operator.sub)


def _plus(a: HogValue, b: HogValue) -> HogValue:
    """A sum, or the moment that lies a span after another."""
    base, span = (b, a) if is_interval(a) else (a, b)
    later = moved(base, span, 1) if is_interval(span) else None
    return _sum(a, b) if later is None else later


def _minus(a: HogValue, b: HogValue) -> HogValue:
    """A difference, or the moment that lies a span before another."""
    earlier = moved(a, b, -1) if is_interval(b) else None
    return _difference(a, b) if earlier is None else earlier


def _quotient(a: Number, b: Number) -> Number:
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a)
    return a / b


def _remainder(a: Number, b: Number) -> Number:
    """Of a division that rounds toward zero, so with the sign of `a`."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return math.fmod(a, b)


def _joined(a: HogValue, b: HogValue) -> str:
    left, right = ("" if value is None else hog_text(value, MAX_OUTPUT) for value in (a, b))
    check_length(len(left) + len(right))
    return left + right


def _is_in(item: HogValue, container: HogValue) -> bool:
    if container is None:
        return False
    if isinstance(container, (bool, int, float)):
        raise fault("`in` needs a list, a map or a text on its right")
    return contains(container, hog_text(item, MAX_OUTPUT) if isinstance(container, str) else item)


def _between(value: HogValue, low: HogValue, high: HogValue) -> bool:
    return less_or_equal(low, value) and less_or_equal(value, high)


NUMERIC = dict.fromkeys(("-", "*", "/", "%"), "turn a text into a number with toFloat()")
NUMERIC["+"] = "join texts with concat(a, b)"

OPERATORS: dict[str, Operator] = {
    "=": equals,
    "==": equals,
    "!=": lambda a, b: not equals(a, b),
    "<>": lambda a, b: not equals(a, b),
    "<": less,
    "<=": less_or_equal,
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: less_or_equal(b, a),
    "in": _is_in,
    "not in": lambda a, b: not _is_in(a, b),
    "like": like,
    "ilike": lambda a, b: like(a, b, fold=True),
    "not like": lambda a, b: not like(a, b),
    "not ilike": lambda a, b: not like(a, b, fold=True),
    "is null": lambda a: a is None,
    "is not null": lambda a: a is not None,
    "between": _between,
    "not between": lambda value, low, high: not _between(value, low, high),
    "+": _plus,
    "-": _minus,
    "*": _counted(operator.mul),
    "/": _counted(_quotient),
    "%": _counted(_remainder),
    "||": _joined,
}

_ON_TEXT = frozenset({"like", "ilike", "not like", "not ilike", "||"})


def applied(name: str, evaluation: Evaluation, values: Sequence[HogValue]) -> HogValue:
    """The operator's result, counting what it reads and the text that it makes of a list or map."""
    evaluation.spend(sum(map(size, values)))
    if name in _ON_TEXT or (name in ("in", "not in") and isinstance(values[1], str)):
        values = [evaluation.flat(value) for value in values]
    return OPERATORS[name](*values)
