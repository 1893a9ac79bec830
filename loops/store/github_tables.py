"""What is known of GitHub's repositories; see tables.py."""

from datetime import datetime

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, instant_field


class RepositoryName(SQLModel, table=True):
    """A name that a repository was seen under, in deliveries of a connection. GitHub's number of it stays.

    `epoch` is the epoch of names at which the row was written, so that every process loads only what is new.
    """

    __tablename__ = "loops_repository_names"
    connection_id: int = Field(primary_key=True)
    repository_id: int = Field(primary_key=True, sa_type=BigInteger)
    name: str = Field(primary_key=True)
    epoch: int = Field(index=True)
    seen_at: datetime = instant_field()


class PushedHead(SQLModel, table=True):
    """A commit that a run of ours pushed: the delivery that tells of it is own output."""

    __tablename__ = "loops_pushed_heads"
    repository_id: int = Field(primary_key=True, sa_type=BigInteger)
    sha: str = Field(primary_key=True)
    run_id: str
    hop: int
    created_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)


repository_names = core(RepositoryName)
pushed_heads = core(PushedHead)
