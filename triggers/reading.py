"""A batch of deliveries, each read as far as its meaning, before any of them is decided."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import sqlalchemy as sa

from loops.event import Event
from loops.ports import Reader
from loops.store import connections as connections_store
from loops.store import deliveries as store
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due, Settled
from loops.threads import off_loop
from triggers.costly import LARGE, is_costly
from triggers.handoff import Handoff, Held
from triggers.source import Ignored, Source

_MOST_BESIDE = 8 * 1024 * 1024
_GONE = "its body is gone: retention removed it before it was dispatched"


@dataclass(frozen=True, slots=True)
class Unread:
    """Its body takes too long to be read while others wait to write."""


Meaning: TypeAlias = list[Event] | Ignored | Settled | Exception | Unread


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


class Desk:
    """What a dispatcher has in its hands: what was just accepted in its process, and what it has read and not decided.

    Only a shortcut: what is not here is read from the database.
    """

    def __init__(self, handoff: Handoff, sources: Mapping[str, Source]) -> None:
        self._handoff = handoff
        self._sources = sources
        self._kept: dict[str, Read] = {}
        self._read_beside: dict[str, Read] = {}
        self._read_before: dict[str, Read] = {}

    def read(
        self, connection: sa.Connection, taken: Sequence[Due], rows: dict[int, ConnectionRow | None]
    ) -> dict[str, Read]:
        """What each delivery means, by its id. `rows` holds the connections that were looked up before; more are put
        there."""
        for number in {due.connection_id for due in taken} - rows.keys():
            rows[number] = connections_store.get(connection, number)
        found: dict[str, Read] = {}
        for due in taken:
            kept, row = self._known(due.id), rows[due.connection_id]
            if kept is not None and kept.settings == ({} if row is None else row.config):
                found[due.id] = replace(kept, due=due, connection=row)
        rest = [due for due in taken if due.id not in found]
        held = {due.id: self._handoff.take(due.id) for due in rest}
        missing = [key for key, value in held.items() if value is None]
        stored = store.bodies(connection, missing, LARGE)
        for due in rest:
            row = rows[due.connection_id]
            meaning = self._meaning(due, row, held[due.id], stored)
            found[due.id] = Read(due, row, held[due.id], meaning)
        return found

    def keep(self, reads: Iterable[Read]) -> None:
        """These the next batch finds as they are, and no others."""
        self._kept = {read.due.id: read for read in reads if isinstance(read.meaning, list)}

    def give_back(self, read: Read) -> None:
        """What was accepted in this process and is decided later."""
        if read.held is not None:
            self._handoff.put(read.due.id, read.held)

    async def read_beside(self, reader: Reader, unread: Sequence[Read]) -> None:
        """Read some of these beside the event loop and outside of any transaction; the next batch finds them."""
        # Somebody else may have taken what was read before: that is forgotten the time after.
        self._read_before, self._read_beside = self._read_beside, {}
        size = 0
        for read in unread:
            held = read.held or await reader.read(partial(_held, delivery_id=read.due.id))
            if held is None:
                meaning: Meaning = Settled(read.due.id, "quarantined", _GONE, 0)
            else:
                meaning = await off_loop(partial(self._parsed, replace(read, held=held)))
                size += len(held.body)
            self._read_beside[read.due.id] = replace(read, held=held, meaning=meaning)
            if size > _MOST_BESIDE:
                return

    def _known(self, delivery_id: str) -> Read | None:
        beside = self._read_beside.pop(delivery_id, None) or self._read_before.pop(delivery_id, None)
        return beside or self._kept.get(delivery_id)

    def _meaning(
        self, due: Due, row: ConnectionRow | None, held: Held | None, stored: Mapping[str, store.StoredBody]
    ) -> Meaning:
        if held is None:
            if due.id not in stored:
                return Settled(due.id, "quarantined", _GONE, 0)
            if stored[due.id].body is None:
                return Unread()
            try:
                held = _opened(stored[due.id])
            except Exception as error:  # noqa: BLE001 - a damaged body is its delivery's fault alone: see _parsed
                return error
        if held.parsed is None and is_costly(due.source, held.body):
            return Unread()
        return self._parsed(Read(due, row, held, Unread()))

    def _parsed(self, read: Read) -> Meaning:
        due, held = read.due, read.held
        if held is None:
            raise TypeError("there is nothing to parse")
        try:
            return self._sources[due.source].parse(due.delivery(held.headers, held.body), held.parsed, read.settings)
        except Exception as error:  # noqa: BLE001 - it is raised again where it can be dealt with
            # Whatever it is, it is this delivery's alone: dispatch tries it again, then sets it aside.
            return error


def _opened(stored: store.StoredBody) -> Held:
    return Held(json.loads(stored.headers), store.expand(stored.body or b""), None)


def _held(connection: sa.Connection, delivery_id: str) -> Held | None:
    found = store.bodies(connection, [delivery_id]).get(delivery_id)
    return None if found is None else _opened(found)
