"""A batch of deliveries, each read as far as its meaning, before any of them is decided."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.event import Event
from loops.store import connections as connections_store
from loops.store import deliveries as store
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due, Settled
from triggers.handoff import Handoff, Held
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.source import Ignored, Source

Meaning: TypeAlias = list[Event] | Ignored | Settled | Exception


@dataclass(frozen=True, slots=True)
class Read:
    """A delivery that was taken, with its connection (None once that is gone) and what was at hand of it.

    `meaning` is its events, why it has none, what becomes of one that cannot be read any more, or the error that came
    up: this delivery's alone.
    """

    due: Due
    connection: ConnectionRow | None
    held: Held | None
    meaning: Meaning

    @property
    def settings(self) -> Mapping[str, Any]:
        """The connection's, without secrets."""
        return {} if self.connection is None else self.connection.config


def read_all(
    connection: sa.Connection,
    taken: Sequence[Due],
    rows: dict[int, ConnectionRow | None],
    handoff: Handoff,
    sources: Mapping[str, Source],
) -> list[Read]:
    """What each delivery means: from what is at hand, else from the database. `rows` holds the connections that were
    looked up before; more are put there."""
    held = {due.id: handoff.take(due.id) for due in taken}
    stored = store.bodies(connection, [key for key, value in held.items() if value is None])
    for number in {due.connection_id for due in taken} - rows.keys():
        rows[number] = connections_store.get(connection, number)
    return [
        Read(due, row := rows[due.connection_id], held[due.id], _meaning(due, row, held[due.id], stored, sources))
        for due in taken
    ]


def _meaning(
    due: Due,
    row: ConnectionRow | None,
    held: Held | None,
    stored: Mapping[str, tuple[str, bytes]],
    sources: Mapping[str, Source],
) -> Meaning:
    settings = {} if row is None else row.config
    try:
        source = sources[due.source]
        if held is not None:
            return source.parse(due.delivery(held.headers, held.body), held.parsed, settings)
        if due.id not in stored:
            return Settled(due.id, "quarantined", "its body is gone: retention removed it before it was dispatched", 0)
        headers, body = stored[due.id]
        return source.parse(due.delivery(json.loads(headers), store.expand(body)), None, settings)
    except Exception as error:  # noqa: BLE001 - it is raised again where it can be dealt with
        # Whatever it is, it is this delivery's alone: dispatch tries it again, then sets it aside.
        return error


def of_posthog(batch: Iterable[Read]) -> Iterator[tuple[str, list[Event]]]:
    """Whose events speak of persons and groups: the project and the events of each delivery."""
    for read in batch:
        if read.due.source == POSTHOG and isinstance(read.meaning, list):
            yield read.due.project_id, read.meaning
