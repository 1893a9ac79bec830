"""The open runs that an overlap policy counts, as SQL over a connection inside the caller's transaction.

Whoever lets runs begin holds the key without waiting (see held_rows.py), and whoever ends one waits for it: so the one
never sees a run that the other has just ended, nor the reverse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from loops.errors import RowHeld
from loops.store.brake_tables import overlaps
from loops.store.held_rows import never_waiting
from loops.store.runs import OPEN, TURN
from loops.store.tables import runs

PAGE = 200


@dataclass(frozen=True, slots=True)
class Place:
    """A workflow's key."""

    workflow_id: str
    digest: str

    @property
    def lock(self) -> str:
        return f"loops-overlap/{self.workflow_id}/{self.digest}"


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The open runs of a key in their order: those that act, and those that wait for them."""

    acting: tuple[str, ...]
    waiting: tuple[str, ...]


_TRY = sa.text("SELECT pg_try_advisory_xact_lock(hashtextextended(:lock, 0))")
_HOLD = sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))")


def try_hold(connection: sa.Connection, place: Place) -> UnderWay:
    """Hold a key until the transaction ends: what is under way there. Raises RowHeld while another process has it."""
    postgres = connection.dialect.name == "postgresql"
    if postgres and not connection.execute(_TRY, {"lock": place.lock}).scalar():
        raise RowHeld("another process is deciding on the same key", hint="it is tried again at once")
    query = sa.select(overlaps.c.run_id, overlaps.c.waits).where(*_here(place)).order_by(overlaps.c.place)
    with never_waiting():
        rows = connection.execute(query.with_for_update(nowait=True)).all()
    return UnderWay(tuple(row[0] for row in rows if not row[1]), tuple(row[0] for row in rows if row[1]))


def under_way(connection: sa.Connection, workflow_id: str) -> UnderWay:
    """What of a workflow is under way or waits, whatever its key."""
    query = sa.select(overlaps.c.run_id, overlaps.c.waits).where(overlaps.c.workflow_id == workflow_id)
    rows = connection.execute(query.order_by(overlaps.c.place).limit(PAGE)).all()
    return UnderWay(tuple(row[0] for row in rows if not row[1]), tuple(row[0] for row in rows if row[1]))


def enter(connection: sa.Connection, run_id: str, place: Place, *, waits: bool) -> None:
    """A run of a key that is held begins, or waits for the others."""
    last = sa.select(sa.func.coalesce(sa.func.max(overlaps.c.place), 0)).where(*_here(place)).scalar_subquery()
    values = {"run_id": run_id, "workflow_id": place.workflow_id, "digest": place.digest, "waits": waits}
    connection.execute(overlaps.insert().values(place=last + 1, **values))


_LEAVE = overlaps.delete().where(overlaps.c.run_id == sa.bindparam("left")).returning(
    overlaps.c.workflow_id, overlaps.c.digest
)  # fmt: skip


def leave(connection: sa.Connection, run_id: str) -> Place | None:
    """A run is over: the key that it counted for, None where it counted for none."""
    row = connection.execute(_LEAVE, {"left": run_id}).first()
    return None if row is None else Place(*row)


def next_waiting(connection: sa.Connection, place: Place) -> str | None:
    """The run whose turn it is, once the key is ours; None where others act, or none waits."""
    if connection.dialect.name == "postgresql":
        connection.execute(_HOLD, {"lock": place.lock})
    query = sa.select(overlaps.c.run_id, overlaps.c.waits).where(*_here(place))
    row = connection.execute(query.order_by(overlaps.c.waits, overlaps.c.place).limit(1)).first()
    return row[0] if row is not None and row[1] else None


def begin(connection: sa.Connection, run_id: str, now: datetime) -> int | None:
    """Let a run begin that waited for its turn: the seq of its segment, None where it does not wait any more."""
    connection.execute(overlaps.update().where(overlaps.c.run_id == run_id).values(waits=False))
    row = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.status == "waiting", runs.c.wait.is_not(None))
        .where(runs.c.wait["kind"].as_string() == TURN)
        .values(status="queued", wait=None, updated_at=now)
        .returning(runs.c.seq)
    ).first()
    return None if row is None else int(row[0])


def stale(connection: sa.Connection) -> Sequence[str]:
    """Runs that are over, or gone, and still count; at most a page."""
    is_open = sa.exists().where(runs.c.id == overlaps.c.run_id, runs.c.status.in_(OPEN))
    return list(connection.execute(sa.select(overlaps.c.run_id).where(~is_open).limit(PAGE)).scalars())


def forgotten(connection: sa.Connection) -> Sequence[Place]:
    """Keys of which runs wait and none acts; at most a page."""
    other = overlaps.alias("other")
    acts = sa.exists().where(
        other.c.workflow_id == overlaps.c.workflow_id, other.c.digest == overlaps.c.digest, ~other.c.waits
    )
    query = sa.select(overlaps.c.workflow_id, overlaps.c.digest).where(overlaps.c.waits, ~acts)
    return [Place(*row) for row in connection.execute(query.distinct().limit(PAGE))]


def _here(place: Place) -> "tuple[sa.ColumnElement[bool], ...]":
    return overlaps.c.workflow_id == place.workflow_id, overlaps.c.digest == place.digest
