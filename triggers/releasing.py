"""Letting go what debounce holds once it is due, in the transaction of a batch. Each is let go alone: one that cannot
start is tried again after 1, 5 and 15 seconds, then given up with its error."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa

from loops.errors import LoopsError, RowHeld
from loops.ports import Clock
from loops.storable import storable_text
from loops.store import holds
from loops.store.holds import HoldRow
from loops.store.outage import is_deadlock, is_outage
from triggers.stages import Released, Stages
from triggers.verdict import Verdict

log = logging.getLogger("loops.dispatch")

RETRIES = (timedelta(seconds=1), timedelta(seconds=5), timedelta(seconds=15))
AT_ONCE = 32
_SOONEST = 0.05
_MOST_REASON = 500


@dataclass(slots=True)
class LetGo:
    """What was let go; `left` where more may be due, and in how many seconds the next is (None: nothing is held)."""

    released: list[Released] = field(default_factory=list)
    left: bool = False
    next: float | None = None


def told(error: Exception) -> str:
    """An error as it is stored with what it stopped."""
    words = error.message if isinstance(error, LoopsError) else f"{type(error).__name__}: {error}"
    return storable_text(words[:_MOST_REASON])


class Releases:
    """Any number of processes may look at once."""

    def __init__(self, stages: Stages, clock: Clock) -> None:
        self._stages = stages
        self._clock = clock

    def due(self, connection: sa.Connection) -> LetGo:
        """Let go what is due now."""
        now, let_go = self._clock.now(), LetGo()
        next_due = holds.next_due(connection)
        if next_due is not None and next_due <= now:
            found = holds.due(connection, now, AT_ONCE)
            for row in found:
                self._release(connection, row, let_go)
            let_go.left = len(found) == AT_ONCE
            next_due = holds.next_due(connection)
        if next_due is not None:
            let_go.next = max(_SOONEST, (next_due - now).total_seconds())
        return let_go

    def _release(self, connection: sa.Connection, row: HoldRow, let_go: LetGo) -> None:
        try:
            with connection.begin_nested():
                came = self._stages.release(connection, row)
        except RowHeld:
            return  # it stays due
        except Exception as error:
            if is_deadlock(error):
                return
            if is_outage(error):
                raise
            self._failed(connection, row, error)
            return
        if came is not None:
            let_go.released.append(came)

    def _failed(self, connection: sa.Connection, row: HoldRow, error: Exception) -> None:
        attempts, now = row.attempts + 1, self._clock.now()
        if attempts <= len(RETRIES):
            holds.put_off(connection, row.id, attempts, now + RETRIES[attempts - 1])
            log.warning("what debounce held could not start; it will be tried again", extra={"hold": row.id})
            return
        reason = told(error)
        verdict = Verdict(row.workflow_id, row.version, "error", passed=False, reason=f"it cannot start: {reason}")
        try:
            with connection.begin_nested():
                is_closed = self._stages.close(connection, Released(row, verdict))
        except RowHeld:
            return  # it stays due
        if is_closed:
            log.error("what debounce held was given up", extra={"hold": row.id, "reason": reason}, exc_info=error)
