"""Retention (D47): what is old goes, in small batches, and is looked for beside the writer so that nobody waits.

Bodies of deliveries, events with their verdicts, the steps of runs, tasks with their rounds, outputs and threads, and
what messages say after `keep_days`; the keys of deliveries, claims, closed notes, the rows of runs and messages,
commits of ours, occurrences, and persons and groups that were not heard of again, after 90 days; windows of masks and
rates a day after their end, and those of masks of archived workflows; what debounce let go after `keep_days`;
idempotency keys of runs by hand after 24 hours; what requests spent two days after their task. Nothing goes that an
open run or debounce still needs, no message that is not at rest, and no open note.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.store.brake_tables import holds, rates
from loops.store.github_tables import pushed_heads
from loops.store.mask_tables import masks
from loops.store.output_tables import task_outputs
from loops.store.people_tables import groups, persons
from loops.store.run_keys import KEEP as KEEP_RUN_KEYS
from loops.store.run_keys import run_keys
from loops.store.runs import OPEN
from loops.store.schedule_tables import occurrences
from loops.store.spending_tables import spendings
from loops.store.tables import claims, deliveries, events, outbox, run_steps, runs, workflows
from loops.store.task_tables import notes, task_rounds, tasks
from loops.store.thread_tables import thread_messages, threads

KEY_DAYS = 90
BATCH = 500
# A delivery that arrived inside a window may wait for its dispatch as long.
_MASK_GRACE = timedelta(days=1)

Keys: TypeAlias = "Sequence[sa.Row[Any]]"

_EVENT = (events.c.project_id, events.c.source, events.c.uuid)
_STEP = (run_steps.c.run_id, run_steps.c.step_id)
_ROUND = (task_rounds.c.task_id, task_rounds.c.number)
_SAID = (thread_messages.c.task_id, thread_messages.c.ts)
_OUTPUT = (task_outputs.c.task_id, task_outputs.c.number)
_CLAIM = (claims.c.workflow_id, claims.c.claim)
# With the instant at which they were seen: whoever is seen before he goes, stays.
_PERSON = (persons.c.project_id, persons.c.distinct_id, persons.c.seen_at)
_HEAD = (pushed_heads.c.repository_id, pushed_heads.c.sha)
_GROUP = (groups.c.project_id, groups.c.type, groups.c.key, groups.c.seen_at)
# With its end: a window that has begun anew since it was found is another one.
_MASK = (masks.c.workflow_id, masks.c.digest, masks.c.ends_at)
_ARCHIVED = masks.c.workflow_id.in_(sa.select(workflows.c.id).where(workflows.c.status == "archived"))
# With the instant: a key that was used again meanwhile stays.
_RUN_KEY = (run_keys.c.workflow_id, run_keys.c.key, run_keys.c.created_at)
_OCCURRENCE = (occurrences.c.schedule_id, occurrences.c.due_at)
_SPENDING = (spendings.c.task_id, spendings.c.key)
# Of an open task all count, however old; of one that is over only what lies in the window of a day.
_SPENT_OPEN = spendings.c.task_id.in_(sa.select(tasks.c.id).where(tasks.c.finished_at.is_(None)))
_SPENT_GRACE = timedelta(days=2)
_DEALT_WITH = deliveries.c.status != "accepted"
_AT_REST = outbox.c.due_at.is_(None)
_HAS_ROUNDS = sa.exists().where(task_rounds.c.task_id == tasks.c.id)
_HAS_OUTPUTS = sa.exists().where(task_outputs.c.task_id == tasks.c.id)
_OVER = ~runs.c.status.in_(OPEN)
# Whatever source and project an open run's event is of: to keep one too many does no harm.
_UNNEEDED = sa.and_(
    events.c.uuid.not_in(sa.select(runs.c.event_uuid).where(runs.c.status.in_(OPEN))),
    events.c.uuid.not_in(sa.select(holds.c.event_uuid).where(holds.c.released_at.is_(None))),
)
# With its end, likewise.
_RATE = (rates.c.workflow_id, rates.c.digest, rates.c.ends_at)


@dataclass(frozen=True, slots=True)
class Old:
    """The keys of what may go, at most a batch of each kind; `bodies` of deliveries that keep their key, `texts` of
    messages that keep their row."""

    bodies: Keys = field(default_factory=list)
    events: Keys = field(default_factory=list)
    steps: Keys = field(default_factory=list)
    runs: Keys = field(default_factory=list)
    deliveries: Keys = field(default_factory=list)
    claims: Keys = field(default_factory=list)
    texts: Keys = field(default_factory=list)
    messages: Keys = field(default_factory=list)
    rounds: Keys = field(default_factory=list)
    outputs: Keys = field(default_factory=list)
    tasks: Keys = field(default_factory=list)
    threads: Keys = field(default_factory=list)
    thread_messages: Keys = field(default_factory=list)
    notes: Keys = field(default_factory=list)
    persons: Keys = field(default_factory=list)
    groups: Keys = field(default_factory=list)
    masks: Keys = field(default_factory=list)
    rates: Keys = field(default_factory=list)
    holds: Keys = field(default_factory=list)
    heads: Keys = field(default_factory=list)
    run_keys: Keys = field(default_factory=list)
    occurrences: Keys = field(default_factory=list)
    spendings: Keys = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__dataclass_fields__)


def find(connection: sa.Connection, now: datetime, keep_days: int) -> Old:
    """What has become too old by now. Reads much: not for the writer."""
    old, older = now - timedelta(days=keep_days), now - timedelta(days=max(KEY_DAYS, keep_days))

    def batch(query: "sa.Select[Any]") -> Keys:
        return connection.execute(query.limit(BATCH)).all()

    ended = sa.select(*_STEP).join(runs, runs.c.id == run_steps.c.run_id)
    full = sa.select(deliveries.c.id).where(deliveries.c.body.is_not(None), _DEALT_WITH)
    worked = sa.select(*_ROUND).join(tasks, tasks.c.id == task_rounds.c.task_id)
    written = sa.select(*_OUTPUT).join(tasks, tasks.c.id == task_outputs.c.task_id)
    said = sa.select(outbox.c.id).where(outbox.c.message != {}, _AT_REST)
    return Old(
        bodies=batch(full.where(deliveries.c.received_at < old)),
        events=batch(sa.select(*_EVENT).where(events.c.created_at < old, _UNNEEDED)),
        steps=batch(ended.where(runs.c.finished_at < old, _OVER)),
        runs=batch(sa.select(runs.c.id).where(runs.c.finished_at < older, _OVER)),
        deliveries=batch(sa.select(deliveries.c.id).where(deliveries.c.received_at < older, _DEALT_WITH)),
        claims=batch(sa.select(*_CLAIM).where(claims.c.created_at < older)),
        texts=batch(said.where(outbox.c.updated_at < old)),
        messages=batch(sa.select(outbox.c.id).where(outbox.c.updated_at < older, _AT_REST)),
        rounds=batch(worked.where(tasks.c.finished_at < old)),
        outputs=batch(written.where(tasks.c.finished_at < old)),
        tasks=batch(sa.select(tasks.c.id).where(tasks.c.finished_at < old, ~_HAS_ROUNDS, ~_HAS_OUTPUTS)),
        threads=batch(sa.select(threads.c.task_id).where(threads.c.updated_at < old, threads.c.status == "closed")),
        thread_messages=batch(sa.select(*_SAID).where(thread_messages.c.created_at < old)),
        notes=batch(sa.select(notes.c.id).where(notes.c.closed_at < older)),
        persons=batch(sa.select(*_PERSON).where(persons.c.seen_at < older)),
        groups=batch(sa.select(*_GROUP).where(groups.c.seen_at < older)),
        masks=batch(sa.select(*_MASK).where(masks.c.ends_at < now - _MASK_GRACE))
        or batch(sa.select(*_MASK).where(_ARCHIVED)),
        rates=batch(sa.select(*_RATE).where(rates.c.ends_at < now - _MASK_GRACE)),
        holds=batch(sa.select(holds.c.id).where(holds.c.released_at < old)),
        heads=batch(sa.select(*_HEAD).where(pushed_heads.c.created_at < older)),
        run_keys=batch(sa.select(*_RUN_KEY).where(run_keys.c.created_at < now - KEEP_RUN_KEYS)),
        occurrences=batch(sa.select(*_OCCURRENCE).where(occurrences.c.due_at < older)),
        spendings=batch(sa.select(*_SPENDING).where(spendings.c.created_at < now - _SPENT_GRACE, ~_SPENT_OPEN)),
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
        (outbox.update().values(message={}).where(_among((outbox.c.id,), old.texts), _AT_REST), old.texts),
        (outbox.delete().where(_among((outbox.c.id,), old.messages), _AT_REST), old.messages),
        (task_rounds.delete().where(_among(_ROUND, old.rounds)), old.rounds),
        (task_outputs.delete().where(_among(_OUTPUT, old.outputs)), old.outputs),
        (tasks.delete().where(_among((tasks.c.id,), old.tasks)), old.tasks),
        (threads.delete().where(_among((threads.c.task_id,), old.threads)), old.threads),
        (thread_messages.delete().where(_among(_SAID, old.thread_messages)), old.thread_messages),
        (notes.delete().where(_among((notes.c.id,), old.notes)), old.notes),
        (persons.delete().where(_among(_PERSON, old.persons)), old.persons),
        (groups.delete().where(_among(_GROUP, old.groups)), old.groups),
        (masks.delete().where(_among(_MASK, old.masks)), old.masks),
        (rates.delete().where(_among(_RATE, old.rates)), old.rates),
        (holds.delete().where(_among((holds.c.id,), old.holds)), old.holds),
        (pushed_heads.delete().where(_among(_HEAD, old.heads)), old.heads),
        (run_keys.delete().where(_among(_RUN_KEY, old.run_keys)), old.run_keys),
        (occurrences.delete().where(_among(_OCCURRENCE, old.occurrences)), old.occurrences),
        (spendings.delete().where(_among(_SPENDING, old.spendings)), old.spendings),
    ]
    return sum(connection.execute(change).rowcount for change, keys in changes if keys)


def _among(columns: Sequence["sa.Column[Any]"], keys: Keys) -> "sa.ColumnElement[bool]":
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return sa.tuple_(*columns).in_([tuple(key) for key in keys])
