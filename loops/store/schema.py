"""Every table in one metadata: what migrations are held against."""

from loops.store import people_tables, run_keys, task_tables
from loops.store.tables import metadata

__all__ = ["metadata", "people_tables", "run_keys", "task_tables"]
