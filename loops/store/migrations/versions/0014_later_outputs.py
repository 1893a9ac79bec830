"""What the later turns of a task write: the turn of an output, and the branch and commit of a change."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = "loops_task_outputs"
    op.add_column(table, sa.Column("turn", sa.Integer(), nullable=False, server_default="1"))
    op.add_column(table, sa.Column("branch", sa.String(), nullable=True))
    op.add_column(table, sa.Column("head", sa.String(), nullable=True))
