"""Names of repositories, commits of ours, what was asked of GitHub about an event, and the subject of a run."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_HAS_SUBJECT = sa.text("subject IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "loops_repository_names",
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "repository_id", "name"),
    )
    op.create_index(op.f("ix_loops_repository_names_epoch"), "loops_repository_names", ["epoch"], unique=False)
    op.create_table(
        "loops_pushed_heads",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("sha", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("hop", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "sha"),
    )
    op.create_index(op.f("ix_loops_pushed_heads_created_at"), "loops_pushed_heads", ["created_at"], unique=False)
    op.add_column("loops_events", sa.Column("facts", Json, nullable=True))
    op.add_column("loops_runs", sa.Column("subject", sa.String(), nullable=True))
    op.create_index(
        "loops_runs_subject",
        "loops_runs",
        ["project_id", "subject", "created_at"],
        unique=False,
        sqlite_where=_HAS_SUBJECT,
        postgresql_where=_HAS_SUBJECT,
    )
