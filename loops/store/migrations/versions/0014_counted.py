"""What counted an event that debounce holds, and the fact that it takes once it starts a run."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Json

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("loops_holds", sa.Column("counted", Json, nullable=True))
    op.add_column("loops_holds", sa.Column("claim", sa.String(), nullable=True))
