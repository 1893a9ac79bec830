"""Every table in one metadata: what migrations are held against."""

from loops.store import (
    alerts,
    github_tables,
    mask_tables,
    people_tables,
    run_keys,
    schedule_tables,
    task_tables,
    thread_tables,
)
from loops.store.tables import metadata

__all__ = [
    "alerts",
    "github_tables",
    "mask_tables",
    "metadata",
    "people_tables",
    "run_keys",
    "schedule_tables",
    "task_tables",
    "thread_tables",
]
