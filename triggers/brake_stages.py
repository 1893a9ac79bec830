"""Rate limit and debounce as stages of dispatch, in the transaction that decides: what is undone with it is given back.

As for masks, time is that of arrival: a brake is about when things happened, not about when they were dispatched.
"""

from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from loops.errors import RowHeld
from loops.store import holds, rates
from loops.store.deliveries import Due
from loops.store.holds import HoldRow
from loops.store.ids import new_id
from triggers.brakes import Debounce, Held, Limited, RateLimit, hold, hold_words, key_words, limit, limit_words
from triggers.counted import Counted, counted_of
from triggers.giving_back import give_back
from triggers.keys import EventJson, Key, digest_of, instant_words


@dataclass(frozen=True, slots=True)
class Passed:
    """Whether an event gets past a brake, and what there is to say of it. `hold` is what it is held by meanwhile, and
    `counted` what is given back if it starts nothing after all."""

    passes: bool
    reason: str
    hold: str = ""
    counted: tuple[Counted, ...] = ()


def within_limit(
    connection: sa.Connection, workflow_id: str, rule: RateLimit, event: EventJson, now: datetime
) -> Passed:
    """Count the event if it passes. Raises RowHeld while another process is deciding on the same key."""
    key = rule.key.of(event, now)
    limited = _limited(connection, workflow_id, key, rule, now)
    counted = (Counted("rate_limit", key.digest, now),) if limited.passes else ()
    return Passed(limited.passes, limit_words(rule, limited, key), counted=counted)


def _limited(connection: sa.Connection, workflow_id: str, key: Key, rule: RateLimit, now: datetime) -> Limited:
    for _ in range(2):
        before = rates.lock(connection, workflow_id, key.digest)
        limited = limit(rule, before or (), now)
        if not limited.passes:
            return limited
        passed, ends_at = limited.passed, limited.passed[-1] + rule.period
        if before is not None:
            rates.save(connection, workflow_id, key.digest, passed, ends_at, now)
            return limited
        if rates.begin(connection, workflow_id, key.digest, passed, ends_at, now):
            return limited
        # Another process has stored the first since: it is there to be locked now.
    raise RowHeld("the rate limit is being changed by another process")


@dataclass(frozen=True, slots=True)
class Wanted:
    """An event that a workflow's debounce is to hold. `notes` are what was said of it on its way, and `counted` what
    counted it. `claim` is the fact that it takes once it starts a run; None where it has taken it, or there is none."""

    workflow_id: str
    version: int
    source: str
    event_uuid: str
    notes: str
    counted: tuple[Counted, ...] = ()
    claim: str | None = None


def put_off(
    connection: sa.Connection,
    rule: Debounce,
    wanted: Wanted,
    due: Due,
    event: EventJson,
    rest_until: datetime | None = None,
) -> Passed | HoldRow:
    """Hold the event. Where another of its key went on before it came, that one has to be released first: it is what
    is returned, and nothing is held. What counted an event that another takes the place of is given back. Raises
    RowHeld while another process is deciding on the same key.

    In a replay events come faster than they came: until `rest_until` nobody else lets go what it holds, so that the
    rest of a burst can take its place. Which of them make a burst is decided by when they arrived all the same. What a
    replay holds has a key of its own: it is no burst with what comes meanwhile."""
    now = due.received_at
    key = rule.key.of(event, now)
    if rest_until is not None:
        key = replace(key, digest=digest_of(event, "replay", key.digest))
    before = holds.lock(connection, wanted.workflow_id, key.digest)
    held_before = None if before is None else _held(before) if rest_until is None else _arrived(rule, before, now)
    if before is not None and (held_before is None or now >= held_before.due_at):
        return before
    held = hold(rule, held_before, now)
    row = _row(wanted, due, key, held)
    passed_over = None if before is None else counted_of(before.counted)
    is_over = before is not None and rest_until is not None and now < before.last_at
    if before is not None and is_over:
        row = replace(before, first_at=held.first_at, count=held.count)  # what is held came after it
        passed_over = wanted.counted
    elif before is not None:
        row = replace(row, id=before.id, attempts=before.attempts)
    told = hold_words(rule, held, key)
    if rest_until is not None:
        row = replace(row, due_at=max(row.due_at, rest_until))
        told = f"held until {instant_words(row.due_at)}: of a burst{key_words(key)} the last goes on"
        told = f"passed over for one that came after it, which is {told}" if is_over else told
    if passed_over is not None:
        holds.save(connection, row)
        give_back(connection, wanted.workflow_id, passed_over, now)
    elif not holds.begin(connection, row):
        raise RowHeld("another process holds an event of the same key")
    return Passed(passes=False, reason=told, hold=row.id)


def _held(row: HoldRow) -> Held:
    return Held(row.first_at, row.last_at, row.due_at, row.count)


def _arrived(rule: Debounce, row: HoldRow, now: datetime) -> Held | None:
    """What is held, as it would be had it been decided when it arrived, with one that arrived at `now`, which may be
    before it; None where that one would have gone on before the first of these came, or before the last."""
    first = min(row.first_at, now)
    if now < row.first_at and (row.first_at >= now + rule.quiet or row.last_at >= now + rule.longest):
        return None
    return Held(first, row.last_at, min(row.last_at + rule.quiet, first + rule.longest), row.count)


def _row(wanted: Wanted, due: Due, key: Key, held: Held) -> HoldRow:
    return HoldRow(
        id=new_id(),
        project_id=due.project_id,
        workflow_id=wanted.workflow_id,
        digest=key.digest,
        shown=key.shown,
        first_at=held.first_at,
        last_at=held.last_at,
        due_at=held.due_at,
        count=held.count,
        source=wanted.source,
        event_uuid=wanted.event_uuid,
        delivery_id=due.id,
        version=wanted.version,
        epoch=due.epoch,
        notes=wanted.notes,
        counted=[one.as_json() for one in wanted.counted],
        claim=wanted.claim,
    )
