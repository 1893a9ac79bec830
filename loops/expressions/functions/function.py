"""What a function of Hog is: how many arguments it takes, and how a call of it becomes a Run."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Never, TypeAlias, TypeGuard

from loops.expressions.coercion import to_number
from loops.expressions.evaluation import Evaluation, Run, size
from loops.expressions.faults import fault
from loops.expressions.notation import HogValue, Number
from loops.expressions.operators import settled

Check: TypeAlias = Callable[[HogValue], str]
"""What is wrong with an argument that stands in the source as it is; "" if nothing."""
Body: TypeAlias = Callable[[Evaluation, Sequence[HogValue]], HogValue]
"""A function that was written as an argument, such as `x -> x.name`."""

# What an item of a list costs that a function makes.
_ITEM = 4


@dataclass(frozen=True, slots=True)
class Signature:
    """How many arguments a function takes; `most` None: any number."""

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


@dataclass(frozen=True, slots=True)
class Function(Signature):
    """A function of values. `checks` look, by place, at arguments that are literals, so that saving finds what is
    wrong with them."""

    bind: Callable[[Sequence[Run]], Run]
    checks: Mapping[int, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemFunction(Signature):
    """A function whose first argument is one itself, of so many `parameters`: it is called for each item."""

    parameters: int
    bind: Callable[[Body, Sequence[Run]], Run]


AnyFunction: TypeAlias = Function | ItemFunction


def plain(
    call: Callable[..., HogValue],
    least: int,
    most: int | None = None,
    *,
    texts: Collection[int] = (),
    weight: int = 1,
    checks: Mapping[int, Check] | None = None,
) -> Function:
    """A function of values. `most` left out is `least`; `texts` are the arguments whose lists and maps become text;
    `weight` is what reading one of their characters or items costs."""

    def bind(runs: Sequence[Run]) -> Run:
        def run(evaluation: Evaluation) -> HogValue:
            values = [argument(evaluation) for argument in runs]
            evaluation.spend(1 + weight * sum(map(size, values)))
            for place in texts:
                if place < len(values):
                    values[place] = evaluation.flat(values[place])
            result = call(*values)
            if isinstance(result, str):
                return evaluation.made(result)
            if isinstance(result, list):
                evaluation.spend(_ITEM * len(result))
            return result

        return run

    return Function(least, least if most is None else most, bind, checks or {})


def lazy(
    bind: Callable[[Sequence[Run]], Run], least: int, most: int | None, *, checks: Mapping[int, Check] | None = None
) -> Function:
    """A function that decides itself which of its arguments are evaluated, and what they cost."""
    return Function(least, most, bind, checks or {})


def refuse(function: str, needed: str, value: HogValue) -> Never:
    """Raise the TemplateError for an argument of the wrong kind."""
    raise fault(f"{function}() needs {needed}, not {kind(value)}", "give it another value with `??`")


def kind(value: HogValue) -> str:
    """What a value is, in words."""
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


def text_of(function: str, value: HogValue) -> str:
    """The value, which must be a text."""
    return value if isinstance(value, str) else refuse(function, "a text", value)


def number_of(function: str, value: HogValue) -> Number:
    """The value as a finite number: a number, or a text that reads as one."""
    number = to_number(value) if isinstance(value, (int, float, str)) and value != "" else None
    if number is None or isinstance(value, bool):
        return refuse(function, "a number", value)
    settled_number = settled(number)
    return settled_number if math.isfinite(settled_number) else refuse(function, "a smaller number", value)


def whole_of(function: str, value: HogValue) -> int:
    """The value as a whole number."""
    number = number_of(function, value)
    return int(number) if isinstance(number, int) or number.is_integer() else refuse(function, "a whole number", value)


def is_list(value: HogValue) -> TypeGuard[Sequence[HogValue]]:
    """Whether the value is a list."""
    return isinstance(value, Sequence) and not isinstance(value, str)
