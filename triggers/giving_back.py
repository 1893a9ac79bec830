"""Giving back what brakes have counted, in the transaction that stops the event."""

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from loops.store import masks, rates
from triggers.counted import Counted, unmatched, unpassed
from triggers.masking import Window


def give_back(connection: sa.Connection, workflow_id: str, counted: Iterable[Counted], now: datetime) -> None:
    """Undo what counted an event that starts nothing. Raises RowHeld while another process is deciding on the same."""
    for one in counted:
        if one.brake == "mask":
            _give_back_match(connection, workflow_id, one, now)
        else:
            _give_back_passage(connection, workflow_id, one, now)


def _give_back_match(connection: sa.Connection, workflow_id: str, counted: Counted, now: datetime) -> None:
    row = masks.lock(connection, workflow_id, counted.digest)
    if row is None:
        return
    left = unmatched(counted, Window(row.started_at, row.count))
    if left is None:
        masks.remove(connection, workflow_id, counted.digest)
    elif left.count != row.count:
        kept = masks.MaskRow(row.started_at, row.ends_at, left.count)
        masks.save(connection, workflow_id, counted.digest, kept, now)


def _give_back_passage(connection: sa.Connection, workflow_id: str, counted: Counted, now: datetime) -> None:
    passed = rates.lock(connection, workflow_id, counted.digest)
    if passed is None:
        return
    left = unpassed(counted, passed)
    if not left:
        rates.remove(connection, workflow_id, counted.digest)
    elif len(left) < len(passed):
        rates.trim(connection, workflow_id, counted.digest, left, now)
