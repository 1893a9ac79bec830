"""What playing a delivery again reads and writes, as SQL over a connection inside the caller's transaction."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.store.deliveries import EventRow
from loops.store.once import insert_once
from loops.store.tables import deliveries, events, runs

MOST_REPLAY_VERDICTS = 50
_STARTED = re.compile(r"([0-9]+) runs? started by (?:a replay|replays)")
_HELD = re.compile(r"([0-9]+) debounced")


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """What is stored of an event of a delivery: its body if it started a run, its verdicts, and what was asked for
    elsewhere when it was decided."""

    body: bytes | None
    verdicts: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]


def next_number(connection: sa.Connection, project_id: str, source: str, event_uuid: str, workflow_id: str) -> int:
    """The number of the next replay: those by which debounce holds the event are given too. The caller holds the
    workflow's row, so nobody else is given it."""
    last: int | None = connection.execute(
        sa.select(sa.func.max(runs.c.replay)).where(
            runs.c.workflow_id == workflow_id,
            runs.c.event_uuid == event_uuid,
            runs.c.project_id == project_id,
            runs.c.source == source,
        )
    ).scalar()
    stored = _verdicts(connection, project_id, source, event_uuid)
    held: list[int] = [one.get("replay", 0) for one in stored if one["workflow"] == workflow_id and one.get("hold")]
    return max(last or 0, *held, 0) + 1


def has_run(connection: sa.Connection, project_id: str, source: str, event_uuid: str, workflow_id: str) -> bool:
    """Whether the event has started a run of the workflow, at first or by a replay."""
    found = connection.execute(
        sa.select(runs.c.id)
        .where(runs.c.workflow_id == workflow_id, runs.c.event_uuid == event_uuid)
        .where(runs.c.project_id == project_id, runs.c.source == source)
        .limit(1)
    )
    return found.first() is not None


def stored_events(connection: sa.Connection, delivery_id: str) -> dict[str, StoredEvent]:
    """The events that are stored of a delivery, by uuid."""
    columns = (events.c.uuid, events.c.body, events.c.verdicts, events.c.facts)
    rows = connection.execute(sa.select(*columns).where(events.c.delivery_id == delivery_id))
    return {row[0]: StoredEvent(row[1], row[2] or [], row[3] or {}) for row in rows}


def add_verdict(connection: sa.Connection, row: EventRow, now: datetime) -> None:
    """Add the row's verdicts to those that its event has; an event that has a body or facts keeps them."""
    values: dict[str, Any] = {
        "project_id": row.project_id,
        "source": row.source,
        "uuid": row.uuid,
        "delivery_id": row.delivery_id,
        "position": row.position,
        "name": row.name,
        "created_at": now,
        "verdicts": [],
        "body": row.body,
        "facts": None if row.facts is None else dict(row.facts),
    }
    connection.execute(insert_once(connection, events), values)
    here = (events.c.project_id == row.project_id, events.c.source == row.source, events.c.uuid == row.uuid)
    before = connection.execute(sa.select(events.c.verdicts).where(*here).with_for_update()).scalar() or []
    first = [one for one in before if not one.get("replay")]
    again = [*(one for one in before if one.get("replay")), *row.verdicts]
    kept: dict[str, Any] = {"body": sa.func.coalesce(events.c.body, row.body)}
    if values["facts"] is not None and connection.execute(sa.select(events.c.facts).where(*here)).scalar() is None:
        kept["facts"] = values["facts"]
    told = [*first, *again[-MOST_REPLAY_VERDICTS:]]
    connection.execute(events.update().where(*here).values(verdicts=told, **kept))


def count_run(connection: sa.Connection, delivery_id: str) -> None:
    """One more run that the delivery started."""
    connection.execute(deliveries.update().where(deliveries.c.id == delivery_id).values(runs=deliveries.c.runs + 1))


def tell_started(connection: sa.Connection, delivery_id: str) -> None:
    """One more run that a replay of the delivery started: its status and reason say so."""
    count_run(connection, delivery_id)
    _tell(connection, delivery_id, _STARTED, _started_words)


def _started_words(number: int) -> str:
    return "1 run started by a replay" if number == 1 else f"{number} runs started by replays"


def tell_held(connection: sa.Connection, delivery_id: str) -> None:
    """One more event that debounce holds, since a replay."""
    _tell(connection, delivery_id, _HELD, lambda n: f"{n} debounced")


def _tell(connection: sa.Connection, delivery_id: str, counted: re.Pattern[str], words: Callable[[int], str]) -> None:
    """Count one more in the delivery's reason, behind what it says already. One that was ignored is so no more."""
    here = deliveries.c.id == delivery_id
    query = sa.select(deliveries.c.status, deliveries.c.reason).where(here).with_for_update()
    status, reason = connection.execute(query).one()
    pieces = [one for one in reason.split(", ") if one]
    before = [(place, found) for place, one in enumerate(pieces) if (found := counted.fullmatch(one))]
    if before:
        place, found = before[0]
        pieces[place] = words(int(found[1]) + 1)
    else:
        pieces.append(words(1))
    status = "dispatched" if status == "ignored" else status
    connection.execute(deliveries.update().where(here).values(status=status, reason=", ".join(pieces)))


def between(
    connection: sa.Connection,
    project_id: str,
    sources: Sequence[str],
    period: tuple[datetime, datetime],
    *,
    after: str,
    limit: int,
    connection_id: int | None = None,
) -> list[str]:
    """The ids of deliveries that were dealt with and have their body, received in [since, until), oldest first."""
    since, until = period
    query = (
        sa.select(deliveries.c.id)
        .where(deliveries.c.project_id == project_id, deliveries.c.source.in_(sources), deliveries.c.id > after)
        .where(deliveries.c.received_at >= since, deliveries.c.received_at < until)
        .where(deliveries.c.status != "accepted", deliveries.c.body.is_not(None))
    )
    if connection_id is not None:
        query = query.where(deliveries.c.connection_id == connection_id)
    return list(connection.execute(query.order_by(deliveries.c.id).limit(limit)).scalars())


def stages_now(connection: sa.Connection, project_id: str, source: str, event_uuid: str, workflow_id: str) -> set[str]:
    """The stages of the verdicts that are stored of a workflow on an event, whichever delivery brought it."""
    return stages_of(_verdicts(connection, project_id, source, event_uuid), workflow_id)


def _verdicts(connection: sa.Connection, project_id: str, source: str, event_uuid: str) -> Sequence[Mapping[str, Any]]:
    query = sa.select(events.c.verdicts).where(
        events.c.project_id == project_id, events.c.source == source, events.c.uuid == event_uuid
    )
    return connection.execute(query).scalar() or []


def stages_of(stored: Sequence[Mapping[str, Any]], workflow_id: str) -> set[str]:
    """The stages of the verdicts that were stored of a workflow."""
    return {str(one["stage"]) for one in stored if one["workflow"] == workflow_id}
