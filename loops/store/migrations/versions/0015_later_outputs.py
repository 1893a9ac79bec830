"""What later turns write (the turn of an output, branch and commit of a change), and what people say of outputs."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_IS_DUE = sa.text("due_at IS NOT NULL")


def upgrade() -> None:
    table = "loops_task_outputs"
    op.add_column(table, sa.Column("turn", sa.Integer(), nullable=False, server_default="1"))
    op.add_column(table, sa.Column("branch", sa.String(), nullable=True))
    op.add_column(table, sa.Column("head", sa.String(), nullable=True))
    op.add_column(table, sa.Column("answers", Json, nullable=True))
    op.add_column(table, sa.Column("sender", sa.String(), nullable=True))
    op.add_column(table, sa.Column("due_at", Instant(), nullable=True))
    op.create_index(
        "loops_task_outputs_due", table, ["due_at"], unique=False, sqlite_where=_IS_DUE, postgresql_where=_IS_DUE
    )
