"""The operators of property filters. One more operator is one more entry in OPERATORS.

Missing and null are one: such a value satisfies `is_not_set` and the negative operators, and nothing else. A list as
the wanted value means any of it (none of it for a negative operator), each compared like a single value.
"""

from collections.abc import Mapping
from types import MappingProxyType

from loops.filters.dates import DATES
from loops.filters.equality import EQUALITY
from loops.filters.operator import SHOWN_LENGTH, Operator, cut, each, shown
from loops.filters.ordering import ORDERING
from loops.filters.patterns import PATTERNS
from loops.filters.versions import VERSIONS

__all__ = ["OPERATORS", "SHOWN_LENGTH", "Operator", "cut", "each", "shown"]

OPERATORS: Mapping[str, Operator] = MappingProxyType({**EQUALITY, **PATTERNS, **ORDERING, **DATES, **VERSIONS})
