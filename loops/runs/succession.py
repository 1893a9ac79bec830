"""Who is next: as a run ends, the one begins that its workflow's overlap policy had wait for it, in one transaction."""

from datetime import datetime
from typing import TYPE_CHECKING

from loops.ports import Engine
from loops.store import overlaps
from loops.store.overlaps import Place

if TYPE_CHECKING:
    from sqlalchemy import Connection


def run_ended(connection: "Connection", engine: Engine, run_id: str, now: datetime) -> None:
    """A run is over in this transaction, however it ended."""
    place = overlaps.leave(connection, run_id)
    if place is not None:
        let_next_begin(connection, engine, place, now)


def let_next_begin(connection: "Connection", engine: Engine, place: Place, now: datetime) -> bool:
    """Let the run begin whose turn it is; whether there was one."""
    while (run_id := overlaps.next_waiting(connection, place)) is not None:
        seq = overlaps.begin(connection, run_id, now)
        if seq is not None:
            engine.enqueue(connection, run_id, seq)
            return True
        overlaps.leave(connection, run_id)  # it was ended by somebody who did not know that it counts
    return False
