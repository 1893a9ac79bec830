"""Property filters: compiled once when a workflow is saved or loaded, then held against events.

A filter that cannot be evaluated is a FilterError when it is compiled, never silence afterwards.
"""

from loops.filters.comparison import Alternative, Comparison, Condition, Filter, Predicate
from loops.filters.compile import compile_condition, compile_filter
from loops.filters.project import NO_PROJECT, ProjectFilters

__all__ = [
    "NO_PROJECT",
    "Alternative",
    "Comparison",
    "Condition",
    "Filter",
    "Predicate",
    "ProjectFilters",
    "compile_condition",
    "compile_filter",
]
