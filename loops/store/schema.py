"""Every table in one metadata: what migrations are held against."""

from loops.store import task_tables
from loops.store.tables import metadata

__all__ = ["metadata", "task_tables"]
