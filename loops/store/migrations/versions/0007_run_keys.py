"""Idempotency keys of runs that were started by hand."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_run_keys",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("asked", sa.String(), nullable=False),
        sa.Column("answer", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "key"),
    )
    op.create_index(op.f("ix_loops_run_keys_created_at"), "loops_run_keys", ["created_at"], unique=False)
