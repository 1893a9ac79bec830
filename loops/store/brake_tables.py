"""The tables of brakes; see tables.py."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, instant_field, json_field

_OPEN = sa.text("released_at IS NULL")


class Rate(SQLModel, table=True):
    """When events of one key of a workflow got past its rate limit: microseconds since 1970, the earliest first.
    `ends_at` is when none of them counts any more."""

    __tablename__ = "loops_rates"
    workflow_id: str = Field(primary_key=True)
    digest: str = Field(primary_key=True)
    passed: list[Any] = json_field(nullable=False)
    ends_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)
    updated_at: datetime = instant_field()


class Hold(SQLModel, table=True):
    """Events of one key that debounce holds, of which the last goes on: `source`, `event_uuid` and `delivery_id` are
    that one's, and `version` the revision that it was held under. `epoch` is its delivery's.

    One of a key is open at a time; it stays after its release, so that those which came before can tell what went on in
    their place. `run_id` is the run that it started, null where it started none. `counted` is what counted the event
    on its way, and `claim` the fact that it takes once it starts a run.
    """

    __tablename__ = "loops_holds"
    __table_args__ = (
        sa.Index("loops_holds_open", "workflow_id", "digest", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        sa.Index("loops_holds_due", "due_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )
    id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str
    digest: str
    shown: str
    first_at: datetime = instant_field()
    last_at: datetime = instant_field()
    due_at: datetime = instant_field()
    count: int
    source: str
    event_uuid: str
    delivery_id: str
    version: int
    epoch: int = Field(sa_type=sa.BigInteger)
    notes: str = ""
    attempts: int = 0
    run_id: str | None = None
    released_at: datetime | None = Field(default=None, sa_type=Instant, nullable=True, index=True)
    counted: list[Any] | None = json_field()
    claim: str | None = None


class Overlap(SQLModel, table=True):
    """An open run that counts for its workflow's overlap policy, under its key. `place` is its place among them; while
    it `waits` it has not begun."""

    __tablename__ = "loops_overlaps"
    __table_args__ = (sa.Index("loops_overlaps_key", "workflow_id", "digest", "place"),)
    run_id: str = Field(primary_key=True)
    workflow_id: str
    digest: str
    place: int = Field(sa_type=sa.BigInteger)
    waits: bool


rates = core(Rate)
holds = core(Hold)
overlaps = core(Overlap)
