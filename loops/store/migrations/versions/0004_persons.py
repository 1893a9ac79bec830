"""Persons and groups, and which accounts of a project are for tests."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_persons",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("distinct_id", sa.String(), nullable=False),
        sa.Column("properties", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "distinct_id"),
    )
    op.create_index(op.f("ix_loops_persons_seen_at"), "loops_persons", ["seen_at"], unique=False)
    op.create_table(
        "loops_groups",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("properties", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "type", "key"),
    )
    op.create_index(op.f("ix_loops_groups_seen_at"), "loops_groups", ["seen_at"], unique=False)
    op.add_column("loops_projects", sa.Column("test_account_filters", Json, nullable=True))
