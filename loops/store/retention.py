"""Retention (D47): what is old goes, in small batches, and is looked for beside the writer so that nobody waits.

Bodies of deliveries, events with their verdicts and the steps of runs after `keep_days`; the keys of deliveries,
claims and the rows of runs after 90 days; windows of masks a day after their end, and those of archived workflows.
Nothing goes that an open run still needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.store.runs import OPEN
from loops.store.tables import claims, deliveries, events, masks, run_steps, runs, workflows

KEY_DAYS = 90
BATCH = 500
# A delivery that arrived inside a window may wait for its dispatch as long.
_MASK_GRACE = timedelta(days=1)

Keys: TypeAlias = "Sequence[sa.Row[Any]]"

_EVENT = (events.c.project_id, events.c.source, events.c.uuid)
_STEP = (run_steps.c.run_id, run_steps.c.step_id)
_CLAIM = (claims.c.workflow_id, claims.c.claim)
# With its end: a window that has begun anew since it was found is another one.
_MASK = (masks.c.workflow_id, masks.c.digest, masks.c.ends_at)
_ARCHIVED = masks.c.workflow_id.in_(sa.select(workflows.c.id).where(workflows.c.status == "archived"))
_DEALT_WITH = deliveries.c.status != "accepted"
_OVER = ~runs.c.status.in_(OPEN)
# Whatever source and project an open run's event is of: to keep one too many does no harm.
_UNNEEDED = events.c.uuid.not_in(sa.select(runs.c.event_uuid).where(runs.c.status.in_(OPEN)))


@dataclass(frozen=True, slots=True)
class Old:
    """The keys of what may go, at most a batch of each kind; `bodies` of deliveries that keep their key."""

    bodies: Keys = field(default_factory=list)
    events: Keys = field(default_factory=list)
    steps: Keys = field(default_factory=list)
    runs: Keys = field(default_factory=list)
    deliveries: Keys = field(default_factory=list)
    claims: Keys = field(default_factory=list)
    masks: Keys = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.bodies, self.events, self.steps, self.runs, self.deliveries, self.claims, self.masks))


def find(connection: sa.Connection, now: datetime, keep_days: int) -> Old:
    """What has become too old by now. Reads much: not for the writer."""
    old, older = now - timedelta(days=keep_days), now - timedelta(days=max(KEY_DAYS, keep_days))

    def batch(query: "sa.Select[Any]") -> Keys:
        return connection.execute(query.limit(BATCH)).all()

    ended = sa.select(*_STEP).join(runs, runs.c.id == run_steps.c.run_id)
    full = sa.select(deliveries.c.id).where(deliveries.c.body.is_not(None), _DEALT_WITH)
    return Old(
        bodies=batch(full.where(deliveries.c.received_at < old)),
        events=batch(sa.select(*_EVENT).where(events.c.created_at < old, _UNNEEDED)),
        steps=batch(ended.where(runs.c.finished_at < old, _OVER)),
        runs=batch(sa.select(runs.c.id).where(runs.c.finished_at < older, _OVER)),
        deliveries=batch(sa.select(deliveries.c.id).where(deliveries.c.received_at < older, _DEALT_WITH)),
        claims=batch(sa.select(*_CLAIM).where(claims.c.created_at < older)),
        masks=batch(sa.select(*_MASK).where(masks.c.ends_at < now - _MASK_GRACE))
        or batch(sa.select(*_MASK).where(_ARCHIVED)),
    )


def remove(connection: sa.Connection, old: Old) -> int:
    """Remove or empty what was found; how many rows."""
    emptied = deliveries.update().values(body=None, headers=None)
    changes: list[tuple[Any, Keys]] = [
        (emptied.where(_among((deliveries.c.id,), old.bodies), _DEALT_WITH), old.bodies),
        (events.delete().where(_among(_EVENT, old.events), _UNNEEDED), old.events),
        (run_steps.delete().where(_among(_STEP, old.steps)), old.steps),
        (runs.delete().where(_among((runs.c.id,), old.runs)), old.runs),
        (deliveries.delete().where(_among((deliveries.c.id,), old.deliveries), _DEALT_WITH), old.deliveries),
        (claims.delete().where(_among(_CLAIM, old.claims)), old.claims),
        (masks.delete().where(_among(_MASK, old.masks)), old.masks),
    ]
    return sum(connection.execute(change).rowcount for change, keys in changes if keys)


def _among(columns: Sequence["sa.Column[Any]"], keys: Keys) -> "sa.ColumnElement[bool]":
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return sa.tuple_(*columns).in_([tuple(key) for key in keys])
