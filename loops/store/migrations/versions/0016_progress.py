"""How far a delivery of many events is decided."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Json

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("loops_deliveries", sa.Column("progress", Json, nullable=True))
