"""Property filters: compiled once when a workflow is saved or loaded, then held against events.

A filter that cannot be evaluated is a FilterError when it is compiled, never silence afterwards.
"""

from loops.filters.comparison import Alternative, Comparison, Filter, Predicate
from loops.filters.compile import compile_filter

__all__ = ["Alternative", "Comparison", "Filter", "Predicate", "compile_filter"]
