"""AI tasks, the rounds of their agents, and the notes that those leave."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OPEN = "status IN ('queued', 'running')"


def upgrade() -> None:
    op.create_table(
        "loops_tasks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("ending", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("request", Json, nullable=False),
        sa.Column("activity", Json, nullable=True),
        sa.Column("result", Json, nullable=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("cancel_requested_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "key"),
    )
    op.create_index(op.f("ix_loops_tasks_run_id"), "loops_tasks", ["run_id"], unique=False)
    op.create_index("loops_tasks_workflow", "loops_tasks", ["workflow_id", "created_at"], unique=False)
    op.create_index("loops_tasks_project", "loops_tasks", ["project_id", "created_at"], unique=False)
    op.create_index(
        "loops_tasks_open",
        "loops_tasks",
        ["id"],
        unique=False,
        sqlite_where=sa.text(_OPEN),
        postgresql_where=sa.text(_OPEN),
    )
    op.create_table(
        "loops_task_rounds",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", Json, nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
    op.create_table(
        "loops_notes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("open_key", sa.String(), nullable=False),
        sa.Column("close_key", sa.String(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("closed_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("open_key"),
    )
    op.create_index("loops_notes_subject", "loops_notes", ["workflow_id", "subject", "created_at"], unique=False)
