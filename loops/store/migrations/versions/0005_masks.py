"""Masks: the windows in which a hash has matched."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_masks",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("ends_at", Instant(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "digest"),
    )
    op.create_index(op.f("ix_loops_masks_ends_at"), "loops_masks", ["ends_at"], unique=False)
