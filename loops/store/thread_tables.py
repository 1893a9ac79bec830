"""The Slack threads that tasks answer in, and what people say there; see tables.py."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field, json_field


class TaskThread(SQLModel, table=True):
    """The thread of one task. `status` is `working` while a turn is due or under way, `listening` after it, `closed`
    when the thread is nobody's any more; a thread that is not closed has one task alone.

    `turn` is the number of the turn, from 1; `turns` holds those that are over. `signs_at` is when the signs in the
    thread (reaction, progress) are to be looked after, `showing_until` until when somebody does. `progress_ts` is the
    message that tells of the progress, `progress_turn` the last turn that got one.
    """

    __tablename__ = "loops_threads"
    __table_args__ = (
        sa.Index(
            "loops_threads_live",
            "project_id",
            "team_id",
            "channel",
            "thread_ts",
            unique=True,
            sqlite_where=sa.text("status <> 'closed'"),
            postgresql_where=sa.text("status <> 'closed'"),
        ),
        sa.Index(
            "loops_threads_signs",
            "signs_at",
            sqlite_where=sa.text("signs_at IS NOT NULL"),
            postgresql_where=sa.text("signs_at IS NOT NULL"),
        ),
    )
    task_id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str = Field(index=True)
    run_id: str = Field(index=True)
    connection_id: int
    team_id: str
    channel: str
    thread_ts: str
    message_ts: str
    user: str = ""
    allows_external: bool = False
    status: str
    reason: str = ""
    turn: int = 1
    turn_at: datetime = instant_field()
    turns: list[dict[str, Any]] = json_field(nullable=False)
    listens_until: datetime | None = instant_field(nullable=True)
    reaction: str = ""
    progress_ts: str = ""
    progress_text: str = ""
    progress_turn: int = 0
    signs_at: datetime | None = instant_field(nullable=True)
    showing_until: datetime | None = instant_field(nullable=True)
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


class ThreadMessage(SQLModel, table=True):
    """What somebody said in the thread of a live task, once by its `ts`. `round` is the round that was told of it,
    null until then."""

    __tablename__ = "loops_thread_messages"
    task_id: str = Field(primary_key=True)
    ts: str = Field(primary_key=True)
    delivery_id: str
    user: str
    said: dict[str, Any] = json_field(nullable=False)
    round: int | None = None
    created_at: datetime = instant_field()


threads = core(TaskThread)
thread_messages = core(ThreadMessage)
