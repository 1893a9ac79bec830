"""What is known of each workflow's failures, and where a project wants to hear of them."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_IS_DUE = sa.text("due_at IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "loops_alerts",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("is_failing", sa.Boolean(), nullable=False),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("untold", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("failed_at", Instant(), nullable=True),
        sa.Column("told_at", Instant(), nullable=True),
        sa.Column("due_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("workflow_id"),
    )
    op.create_index(
        "loops_alerts_due",
        "loops_alerts",
        ["due_at"],
        unique=False,
        sqlite_where=_IS_DUE,
        postgresql_where=_IS_DUE,
    )
    op.create_index(op.f("ix_loops_alerts_project_id"), "loops_alerts", ["project_id"], unique=False)
    op.add_column("loops_projects", sa.Column("alert_target", Json, nullable=True))
