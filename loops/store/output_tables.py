"""The table of what tasks write outside; see tables.py."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field, json_field


class TaskOutput(SQLModel, table=True):
    """Something that a task asks to have written. `key` is that of the call that asked for it.

    `turn` is the one that asked for it. `body` is what the agent said, `patch` the change to the repository
    (compressed), `base` the commit that it is one of, `reason` why it stands as it does, and `url` where it was
    written. `branch` and `head` are where a change was to be pushed, and its commit, from before the push. `attempts`
    counts how often writing began. `answers` are what people said of it, `due_at` when somebody is to send it for one
    of them, and `sender` who does until then.
    """

    __tablename__ = "loops_task_outputs"
    __table_args__ = (
        sa.UniqueConstraint("task_id", "key"),
        sa.Index(
            "loops_task_outputs_due",
            "due_at",
            sqlite_where=sa.text("due_at IS NOT NULL"),
            postgresql_where=sa.text("due_at IS NOT NULL"),
        ),
    )
    task_id: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    key: str
    turn: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    kind: str
    repository: str
    body: dict[str, Any] = json_field(nullable=False)
    patch: bytes | None = None
    base: dict[str, Any] | None = json_field()
    branch: str | None = None
    head: str | None = None
    status: str
    reason: str = ""
    url: str = ""
    attempts: int = 0
    answers: list[dict[str, Any]] | None = json_field()
    sender: str | None = None
    due_at: datetime | None = instant_field(nullable=True)
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


task_outputs = core(TaskOutput)
