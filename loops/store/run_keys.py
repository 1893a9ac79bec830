"""Idempotency keys of runs that were started by hand, each with the answer that it was first given."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, json_field

KEEP = timedelta(hours=24)


class RunKey(SQLModel, table=True):
    """`asked` is a digest of what was asked for with the key."""

    __tablename__ = "loops_run_keys"
    workflow_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    asked: str
    answer: dict[str, Any] = json_field(nullable=False)
    created_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)


run_keys = core(RunKey)


def known(connection: sa.Connection, workflow_id: str, key: str, now: datetime) -> tuple[str, Mapping[str, Any]] | None:
    """What was asked with the key and answered, less than 24 hours ago."""
    row = connection.execute(
        sa.select(run_keys.c.asked, run_keys.c.answer).where(
            run_keys.c.workflow_id == workflow_id, run_keys.c.key == key, run_keys.c.created_at > now - KEEP
        )
    ).first()
    return None if row is None else (row[0], row[1])


def put(
    connection: sa.Connection, workflow_id: str, key: str, asked: str, answer: Mapping[str, Any], now: datetime
) -> None:
    """Keep an answer, in place of one that has become too old. The workflow's row is locked."""
    here = (run_keys.c.workflow_id == workflow_id, run_keys.c.key == key)
    connection.execute(run_keys.delete().where(*here))
    connection.execute(
        run_keys.insert().values(workflow_id=workflow_id, key=key, asked=asked, answer=dict(answer), created_at=now)
    )
