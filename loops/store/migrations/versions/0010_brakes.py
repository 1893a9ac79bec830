"""Brakes: rate limits, what debounce holds, and the runs that an overlap policy counts."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_OPEN = sa.text("released_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "loops_rates",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("passed", Json, nullable=False),
        sa.Column("ends_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "digest"),
    )
    op.create_index(op.f("ix_loops_rates_ends_at"), "loops_rates", ["ends_at"], unique=False)
    op.create_table(
        "loops_holds",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("first_at", Instant(), nullable=False),
        sa.Column("last_at", Instant(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("event_uuid", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("notes", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("released_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "loops_holds_open",
        "loops_holds",
        ["workflow_id", "digest"],
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index(
        "loops_holds_due", "loops_holds", ["due_at"], unique=False, sqlite_where=_OPEN, postgresql_where=_OPEN
    )
    op.create_index(op.f("ix_loops_holds_released_at"), "loops_holds", ["released_at"], unique=False)
    op.create_table(
        "loops_overlaps",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_index("loops_overlaps_key", "loops_overlaps", ["workflow_id", "digest", "place"], unique=False)
