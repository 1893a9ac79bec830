"""Schedules of workflows, and what became of their occurrences."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_IS_DUE = sa.text("next_due IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "loops_schedules",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("rrule", sa.String(), nullable=True),
        sa.Column("cron", sa.String(), nullable=True),
        sa.Column("starts_at", sa.String(), nullable=True),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("variables", Json, nullable=False),
        sa.Column("catch_up", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("next_due", Instant(), nullable=True),
        sa.Column("idle_since", Instant(), nullable=True),
        sa.Column("fault", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_loops_schedules_workflow_id"), "loops_schedules", ["workflow_id"], unique=False)
    op.create_index("loops_schedules_recent", "loops_schedules", ["project_id", "created_at"], unique=False)
    op.create_index(
        "loops_schedules_due",
        "loops_schedules",
        ["next_due"],
        unique=False,
        sqlite_where=_IS_DUE,
        postgresql_where=_IS_DUE,
    )
    op.create_table(
        "loops_occurrences",
        sa.Column("schedule_id", sa.String(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("decided_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("schedule_id", "due_at"),
    )
    op.create_index(op.f("ix_loops_occurrences_due_at"), "loops_occurrences", ["due_at"], unique=False)
