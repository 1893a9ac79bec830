"""The outbox: messages that leave."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_outbox",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("step_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=True),
        sa.Column("message", Json, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("refs", Json, nullable=False),
        sa.Column("missed", Json, nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("mend", sa.String(), nullable=False),
        sa.Column("began_at", Instant(), nullable=True),
        sa.Column("due_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "key"),
    )
    op.create_index(op.f("ix_loops_outbox_run_id"), "loops_outbox", ["run_id"], unique=False)
    op.create_index(
        "loops_outbox_due",
        "loops_outbox",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index("loops_outbox_recent", "loops_outbox", ["project_id", "created_at"], unique=False)
