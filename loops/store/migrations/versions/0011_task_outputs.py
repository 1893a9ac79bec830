"""What tasks write outside: pull requests, comments, labels and issues."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_task_outputs",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("body", Json, nullable=False),
        sa.Column("patch", sa.LargeBinary(), nullable=True),
        sa.Column("base", Json, nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
        sa.UniqueConstraint("task_id", "key"),
    )
