"""Accept: a verified arrival is stored, and only then answered."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from loops.ports import Clock, DeliveryRow, Writer
from loops.storable import storable_text
from loops.store.columns import to_micros
from loops.store.github import bump, rights_epoch
from loops.store.ids import new_id
from triggers.handoff import Handoff, Held
from triggers.source import Arrival, Incoming, Source, Topic

_encode = msgspec.json.Encoder().encode


class Connection(Protocol):
    """A connection as receiving needs it: its secrets opened."""

    @property
    def id(self) -> int: ...
    @property
    def project_id(self) -> str: ...
    @property
    def secrets(self) -> Mapping[str, str]: ...


class Answer(NamedTuple):
    """What the sender is told; `told` are further texts that its protocol asks for."""

    delivery: str
    status: Literal["accepted", "duplicate", "ignored"]
    reason: str = ""
    told: Mapping[str, str] = MappingProxyType({})


# The epoch at which no loop could have listened for any of the topics of a project's source; None if one could.
Unheard: TypeAlias = Callable[[str, str, Sequence[Topic]], int | None]


class Intake:
    """The receiving end of every source."""

    def __init__(
        self, writer: Writer, clock: Clock, handoff: Handoff, *, accepted: Callable[[], None], unheard: Unheard
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._handoff = handoff
        self._accepted = accepted
        self._unheard = unheard

    def receive(self, source: Source, connection: Connection, incoming: Incoming) -> Coroutine[Any, Any, Answer]:
        """Verify, store, answer. Raises DeliveryError for what is refused and StoreBusy when nothing could be stored.

        The answer comes after the commit: from then on the delivery is not lost, whatever happens to this process.
        """
        return self.accept(source, connection, incoming, source.receive(incoming, connection.secrets))

    async def accept(self, source: Source, connection: Connection, incoming: Incoming, arrival: Arrival) -> Answer:
        """Store what was verified and read, and answer. Raises StoreBusy when it could not be stored."""
        if arrival.changes_rights:  # before it is stored: whoever finds it stored must find the change too
            await self._writer.run(lambda transaction: bump(transaction, rights_epoch(connection.id)))
        if not arrival.kept:
            return Answer("", "ignored", arrival.ignored or "")
        headers, stored_headers = _headers(source, incoming, arrival)
        row = self._row(source, connection, incoming, arrival, stored_headers)
        handed_on = row.unheard is None and arrival.ignored is None
        if handed_on:  # before it is stored: a dispatcher may take it as soon as it is
            self._handoff.put(row.id, Held(headers, incoming.body, arrival.parsed))
        try:
            receipt = await self._writer.accept(row)
        except BaseException:
            self._handoff.take(row.id)
            raise
        if not receipt.new:
            self._handoff.take(row.id)
            return Answer(receipt.id, "duplicate", f"a delivery {arrival.key!r} was accepted before", arrival.told)
        if arrival.ignored is not None:
            return Answer(receipt.id, "ignored", arrival.ignored, arrival.told)
        if handed_on:
            self._accepted()
        return Answer(receipt.id, "accepted", "", arrival.told)

    def _row(
        self,
        source: Source,
        connection: Connection,
        incoming: Incoming,
        arrival: Arrival,
        headers: str,
    ) -> DeliveryRow:
        project_id, ignored = connection.project_id, arrival.ignored
        listened = ignored is not None or arrival.topics is None
        return DeliveryRow(
            new_id(),
            project_id,
            connection.id,
            source.name,
            arrival.key,
            arrival.name,
            arrival.subject,
            to_micros(self._clock.now()),
            arrival.verified,
            "accepted" if ignored is None else "ignored",
            ignored or "",
            headers,
            incoming.body,
            len(incoming.body),
            None if listened else self._unheard(project_id, source.name, arrival.topics or ()),
        )


def _headers(source: Source, incoming: Incoming, arrival: Arrival) -> tuple[Mapping[str, str], str]:
    """The headers that are kept, and as they are stored."""
    if arrival.headers is not None:
        return arrival.headers, _encode(dict(arrival.headers)).decode()
    names = source.kept_headers
    return _kept(names, tuple(map(incoming.headers.get, names)))


# A sender's are the same at every delivery.
@lru_cache(maxsize=256)
def _kept(names: tuple[str, ...], values: tuple[str | None, ...]) -> tuple[Mapping[str, str], str]:
    kept = {name: storable_text(value) for name, value in zip(names, values, strict=True) if value is not None}
    return MappingProxyType(kept), _encode(kept).decode()
