"""Overlap as the last stage: what becomes of a run while others of its key are under way, decided in the transaction
that starts it. It holds however the run is asked for: by an event, a schedule, a person, or a replay."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from loops.errors import Conflict
from loops.ports import Engine
from loops.runs.settling import nothing_to_stop
from loops.store import overlaps, run_requests
from loops.store import runs as runs_store
from loops.store.overlaps import Place, UnderWay
from loops.store.runs import NewRun
from triggers.brakes import OverlapRule, admit
from triggers.keys import EventJson, Key

if TYPE_CHECKING:
    from sqlalchemy import Connection

Cancel: TypeAlias = "Callable[[Connection, str, str, datetime], bool]"
"""Cancels a run, for a reason, in the caller's transaction: whether it acts until it has noticed."""
_REPLACED = "cancelled: a newer run took its place (overlap: restart)"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Whether a run may be, and what there is to say of it. It counts at `place`, and begins after the run that it
    `waits_for`."""

    passes: bool
    reason: str = ""
    place: Place | None = None
    waits_for: str | None = None


FREE = Admitted(passes=True)
"""Of a workflow without an overlap policy."""


def cancel_alone(connection: "Connection", run_id: str, reason: str, now: datetime) -> bool:
    """The Cancel of runs behind which nothing acts."""
    try:
        return run_requests.request_cancel(connection, run_id, now, nothing_to_stop, reason).status == "running"
    except Conflict:
        return False  # over already


@dataclass(frozen=True, slots=True)
class Starting:
    """Lets runs begin. `cancel` ends those that are replaced."""

    engine: Engine
    cancel: Cancel = cancel_alone

    def admitted(
        self, connection: "Connection", workflow_id: str, rule: OverlapRule, event: EventJson, now: datetime
    ) -> Admitted:
        """What becomes of a run for an event; what it replaces is cancelled. Raises RowHeld while another process is
        deciding on the same key."""
        key = rule.key.of(event, now)
        place = Place(workflow_id, key.digest)
        found = overlaps.try_hold(connection, place)
        return self._admitted(connection, rule, place, key, found, now)

    def _admitted(
        self,
        connection: "Connection",
        rule: OverlapRule,
        place: Place,
        key: Key,
        found: UnderWay,
        now: datetime,
    ) -> Admitted:
        admission = admit(rule, found.acting, found.waiting, key)
        if admission.how == "drop":
            return Admitted(passes=False, reason=admission.reason)
        if admission.how == "replace":
            acting = [one for one in (*found.waiting, *found.acting) if self._still_acts(connection, one, now)]
            return Admitted(True, admission.reason, place, acting[0] if acting else None)
        if admission.how == "wait":
            return Admitted(True, admission.reason, place, (*found.acting, *found.waiting)[0])
        return Admitted(True, "", place)

    def _still_acts(self, connection: "Connection", run_id: str, now: datetime) -> bool:
        """Cancel a run; whether it acts until it has noticed. Its segment, if one is parked, finds nothing to do."""
        run_requests.hold_now(connection, run_id)
        if self.cancel(connection, run_id, _REPLACED, now):
            return True
        # Not run_ended: what comes now takes its turn, whoever else waits.
        overlaps.leave(connection, run_id)
        return False

    def begin(self, connection: "Connection", run: NewRun, admitted: Admitted, now: datetime) -> None:
        """Insert a run that was admitted and put its first segment into the queue, unless it waits or is known."""
        if not runs_store.insert(connection, replace(run, waits_for=admitted.waits_for), now):
            return
        if admitted.place is not None:
            overlaps.enter(connection, run.id, admitted.place, waits=admitted.waits_for is not None)
        if admitted.waits_for is None:
            self.engine.enqueue(connection, run.id, 0)
