"""Every table in one metadata: what migrations are held against."""

from loops.store import (
    alerts,
    brake_tables,
    github_tables,
    mask_tables,
    output_tables,
    people_tables,
    run_keys,
    schedule_tables,
    skill_tables,
    spending_tables,
    task_tables,
    thread_tables,
)
from loops.store.tables import metadata

__all__ = [
    "alerts",
    "brake_tables",
    "github_tables",
    "mask_tables",
    "metadata",
    "output_tables",
    "people_tables",
    "run_keys",
    "schedule_tables",
    "skill_tables",
    "spending_tables",
    "task_tables",
    "thread_tables",
]
