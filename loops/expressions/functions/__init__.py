"""The functions of Hog, a module a subject. One more is one entry in its module's FUNCTIONS."""

from collections.abc import Mapping
from types import MappingProxyType

from config.closest import closest
from loops.expressions.functions import dates, encoding, json_values, lists, logic, numbers, text
from loops.expressions.functions.function import AnyFunction, Function, ItemFunction
from loops.expressions.functions.logic import all_of, any_of, conditional, first_not_null

__all__ = [
    "FUNCTIONS",
    "AnyFunction",
    "Function",
    "ItemFunction",
    "all_of",
    "any_of",
    "conditional",
    "first_not_null",
    "nearest",
]

_MODULES = (dates, encoding, json_values, lists, logic, numbers, text)

FUNCTIONS: Mapping[str, AnyFunction] = MappingProxyType(
    {name: function for module in _MODULES for name, function in module.FUNCTIONS.items()}
)


def nearest(name: str) -> str:
    """The hint for an unknown function: the known one that it resembles most."""
    found = closest(name, FUNCTIONS)
    return f"did you mean {found}()?" if found else f"known: {', '.join(sorted(FUNCTIONS))}"
