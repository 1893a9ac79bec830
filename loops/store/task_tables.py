"""The tables of AI tasks; see tables.py."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field, json_field


class Task(SQLModel, table=True):
    """One AI task. `key` is its step's: asked for again it is the same task.

    `seq`, `owner` and `restarts` are as of a run. `request` is what the agent begins with (system text, first message,
    limits, fields), `given` what its equipment had for it when it began (lists of tools), `activity` what it does
    at this moment, `result` what its step reads.
    """

    __tablename__ = "loops_tasks"
    __table_args__ = (
        sa.UniqueConstraint("project_id", "key"),
        sa.Index("loops_tasks_workflow", "workflow_id", "created_at"),
        sa.Index("loops_tasks_project", "project_id", "created_at"),
        sa.Index(
            "loops_tasks_open",
            "id",
            sqlite_where=sa.text("status IN ('queued', 'running')"),
            postgresql_where=sa.text("status IN ('queued', 'running')"),
        ),
    )
    id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str
    run_id: str = Field(index=True)
    step_id: str
    key: str
    title: str
    status: str
    ending: str = ""
    reason: str = ""
    model: str = ""
    request: dict[str, Any] = json_field(nullable=False)
    given: dict[str, Any] | None = json_field()
    activity: dict[str, Any] | None = json_field()
    result: dict[str, Any] | None = json_field()
    seq: int = 0
    restarts: int = 0
    owner: str | None = None
    rounds: int = 0
    input_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    output_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    cost: float | None = None
    cancel_requested_at: datetime | None = instant_field(nullable=True)
    created_at: datetime = instant_field()
    started_at: datetime | None = instant_field(nullable=True)
    finished_at: datetime | None = instant_field(nullable=True)
    updated_at: datetime = instant_field()


class TaskRound(SQLModel, table=True):
    """One round of a task's agent, kept before the next one begins; see loops/agent/transcript.py for `body`."""

    __tablename__ = "loops_task_rounds"
    task_id: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    body: dict[str, Any] = json_field(nullable=False)
    updated_at: datetime = instant_field()


class Note(SQLModel, table=True):
    """What an agent left for the next run of its loop on the same subject. The keys are those of the calls that opened
    and closed it."""

    __tablename__ = "loops_notes"
    __table_args__ = (
        sa.UniqueConstraint("open_key"),
        sa.Index("loops_notes_subject", "workflow_id", "subject", "created_at"),
    )
    id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str
    subject: str
    task_id: str
    text: str
    reason: str = ""
    open_key: str
    close_key: str | None = None
    created_at: datetime = instant_field()
    closed_at: datetime | None = instant_field(nullable=True)


tasks = core(Task)
task_rounds = core(TaskRound)
notes = core(Note)
