"""The table of masks; see tables.py."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, instant_field


class Mask(SQLModel, table=True):
    """A window of a workflow's mask: how often one hash has matched since `started_at`. The digest is of the hash and
    of what gives the count its meaning, so an edit of these begins anew."""

    __tablename__ = "loops_masks"
    workflow_id: str = Field(primary_key=True)
    digest: str = Field(primary_key=True)
    started_at: datetime = instant_field()
    ends_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)
    count: int = Field(sa_type=sa.BigInteger)
    updated_at: datetime = instant_field()


masks = core(Mask)
