"""Slack threads of tasks, and what people say in them."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_IS_LIVE = sa.text("status <> 'closed'")
_HAS_SIGNS = sa.text("signs_at IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "loops_threads",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("team_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread_ts", sa.String(), nullable=False),
        sa.Column("message_ts", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("allows_external", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("turn_at", Instant(), nullable=False),
        sa.Column("turns", Json, nullable=False),
        sa.Column("listens_until", Instant(), nullable=True),
        sa.Column("reaction", sa.String(), nullable=False),
        sa.Column("progress_ts", sa.String(), nullable=False),
        sa.Column("progress_text", sa.String(), nullable=False),
        sa.Column("progress_turn", sa.Integer(), nullable=False),
        sa.Column("signs_at", Instant(), nullable=True),
        sa.Column("showing_until", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
    op.create_index(op.f("ix_loops_threads_workflow_id"), "loops_threads", ["workflow_id"], unique=False)
    op.create_index(op.f("ix_loops_threads_run_id"), "loops_threads", ["run_id"], unique=False)
    op.create_index(
        "loops_threads_live",
        "loops_threads",
        ["project_id", "team_id", "channel", "thread_ts"],
        unique=True,
        sqlite_where=_IS_LIVE,
        postgresql_where=_IS_LIVE,
    )
    op.create_index(
        "loops_threads_signs",
        "loops_threads",
        ["signs_at"],
        unique=False,
        sqlite_where=_HAS_SIGNS,
        postgresql_where=_HAS_SIGNS,
    )
    op.create_table(
        "loops_thread_messages",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("ts", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("said", Json, nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "ts"),
    )
