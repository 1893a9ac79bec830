"""The mask as a stage of dispatch: counted in the transaction that decides, so that a match is given back with whatever
else is undone."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from loops.errors import RowHeld
from loops.store import masks as store
from loops.store.masks import MaskRow
from triggers.counted import Counted
from triggers.keys import EventJson, Key
from triggers.masking import Decision, Mask, Unmasked, Window, decide, words


@dataclass(frozen=True, slots=True)
class Masked:
    """Whether the event gets past the mask, what there is to say of it, and what is given back if it starts nothing
    after all."""

    passes: bool
    reason: str
    counted: tuple[Counted, ...] = ()


def hold(connection: sa.Connection, workflow_id: str, mask: Mask, event: EventJson, now: datetime) -> Masked:
    """Count the event and decide. Raises RowHeld while another process is deciding on the same hash."""
    if mask.rule.threshold == 1:
        return Masked(passes=True, reason="not masked: a threshold of 1 lets every match pass")
    key = mask.key(event, now)
    if isinstance(key, Unmasked):
        return Masked(passes=True, reason=key.reason)
    decision = _counted(connection, workflow_id, key, mask, now)
    which = "; ".join(filter(None, (f"hash {key.shown!r}", key.note)))
    reason = f"{words(mask.rule, decision)} ({which})"
    if not decision.fires:
        return Masked(passes=False, reason=reason)
    window = decision.window
    return Masked(True, reason, (Counted("mask", key.digest, window.started_at, window.count, mask.rule.threshold),))


def _counted(connection: sa.Connection, workflow_id: str, key: Key, mask: Mask, now: datetime) -> Decision:
    for _ in range(2):
        row = store.lock(connection, workflow_id, key.digest)
        decision = decide(mask.rule, None if row is None else Window(row.started_at, row.count), now)
        window = decision.window
        counted = MaskRow(window.started_at, window.started_at + mask.rule.ttl, window.count)
        if row is not None:
            store.save(connection, workflow_id, key.digest, counted, now)
            return decision
        if store.begin(connection, workflow_id, key.digest, counted, now):
            return decision
        # Another process has begun the window since: it is there to be locked now.
    raise RowHeld("the mask's window is being changed by another process")
