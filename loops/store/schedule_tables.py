"""Schedules of workflows and what became of their occurrences; see tables.py."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, instant_field, json_field


class Schedule(SQLModel, table=True):
    """When a workflow is started: `rrule` with `starts_at`, or `cron`, as they were given, in a time zone.

    `next_due` is the instant of the next occurrence, null while nothing is to fire; `idle_since` is when it became
    null. `fault` is why the schedule cannot fire, although it is active.
    """

    __tablename__ = "loops_schedules"
    __table_args__ = (
        sa.Index(
            "loops_schedules_due",
            "next_due",
            sqlite_where=sa.text("next_due IS NOT NULL"),
            postgresql_where=sa.text("next_due IS NOT NULL"),
        ),
        sa.Index("loops_schedules_recent", "project_id", "created_at"),
    )
    id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str = Field(index=True)
    rrule: str | None = None
    cron: str | None = None
    starts_at: str | None = None
    timezone: str
    variables: dict[str, Any] = json_field(nullable=False)
    catch_up: str
    status: str
    next_due: datetime | None = instant_field(nullable=True)
    idle_since: datetime | None = instant_field(nullable=True)
    fault: str = ""
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


class ScheduleOccurrence(SQLModel, table=True):
    """What became of one occurrence. The row is the claim: who inserts it decides, and nobody decides again."""

    __tablename__ = "loops_occurrences"
    schedule_id: str = Field(primary_key=True)
    due_at: datetime = Field(default=None, sa_type=Instant, primary_key=True, index=True)
    outcome: str
    reason: str = ""
    run_id: str | None = None
    decided_at: datetime = instant_field()


schedules = core(Schedule)
occurrences = core(ScheduleOccurrence)
