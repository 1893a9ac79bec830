"""The table of what model calls spend; see tables.py."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field


class Spending(SQLModel, table=True):
    """What one request of a task to its model may use at most, put aside before it, and what it really used once it is
    `is_settled`. `nanos` are billionths of a US dollar, null where nobody knows the price."""

    __tablename__ = "loops_spendings"
    __table_args__ = (
        sa.Index("loops_spendings_project", "project_id", "created_at"),
        sa.Index("loops_spendings_workflow", "workflow_id", "created_at"),
    )
    task_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    project_id: str
    workflow_id: str
    tokens: int = Field(sa_type=sa.BigInteger)
    nanos: int | None = Field(default=None, sa_type=sa.BigInteger)
    is_settled: bool
    created_at: datetime = instant_field()


spendings = core(Spending)
