"""Skills, what model calls spend, quotas of a project, spaces, and what a task was given when it began."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_HAS_SPACE = sa.text("space IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "loops_skills",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("files", Json, nullable=False),
        sa.Column("created_by", sa.String(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "name"),
    )
    op.create_table(
        "loops_spendings",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=True),
        sa.Column("is_settled", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "key"),
    )
    op.create_index("loops_spendings_project", "loops_spendings", ["project_id", "created_at"], unique=False)
    op.create_index("loops_spendings_workflow", "loops_spendings", ["workflow_id", "created_at"], unique=False)
    op.add_column("loops_projects", sa.Column("quotas", Json, nullable=True))
    op.add_column("loops_tasks", sa.Column("given", Json, nullable=True))
    op.add_column("loops_workflows", sa.Column("space", sa.String(), nullable=True))
    op.add_column("loops_runs", sa.Column("space", sa.String(), nullable=True))
    op.create_index(
        "loops_runs_space",
        "loops_runs",
        ["project_id", "space", "created_at"],
        unique=False,
        sqlite_where=_HAS_SPACE,
        postgresql_where=_HAS_SPACE,
    )
