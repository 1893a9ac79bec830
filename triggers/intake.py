"""Accept: a verified arrival is stored, and only then answered."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from loops.ports import Clock, DeliveryRow, Receipt, Writer
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

    async def receive(self, source: Source, connection: Connection, incoming: Incoming) -> Answer:
        """Verify, store, answer. Raises DeliveryError for what is refused and StoreBusy when nothing could be stored.

        The answer comes after the commit: from then on the delivery is not lost, whatever happens to this process.
        """
        return await self.accept(source, connection, incoming, source.receive(incoming, connection.secrets))

    async def accept(self, source: Source, connection: Connection, incoming: Incoming, arrival: Arrival) -> Answer:
        """Store what was verified and read, and answer. Raises StoreBusy when it could not be stored."""
        if arrival.changes_rights:  # before it is stored: whoever finds it stored must find the change too
            await self._writer.run(lambda transaction: bump(transaction, rights_epoch(connection.id)))
        if not arrival.kept:
            return Answer("", "ignored", arrival.ignored or "")
        headers = _kept_headers(source, incoming) if arrival.headers is None else dict(arrival.headers)
        row = self._row(source, connection, incoming, arrival, headers)
        if arrival.ignored is not None or row.unheard is not None:
            receipt = await self._writer.accept(row)
        else:
            receipt = await self._hand_on(row, Held(headers, incoming.body, arrival.parsed))
        if not receipt.new:
            return Answer(receipt.id, "duplicate", f"a delivery {arrival.key!r} was accepted before", arrival.told)
        if arrival.ignored is not None:
            return Answer(receipt.id, "ignored", arrival.ignored, arrival.told)
        return Answer(receipt.id, "accepted", "", arrival.told)

    async def _hand_on(self, row: DeliveryRow, held: Held) -> Receipt:
        """Store the row, with what dispatch needs at hand before it is: a dispatcher may take it as soon as it is."""
        self._handoff.put(row.id, held)
        try:
            receipt = await self._writer.accept(row)
        except BaseException:
            self._handoff.take(row.id)
            raise
        if receipt.new:
            self._accepted()
        else:
            self._handoff.take(row.id)
        return receipt

    def _row(
        self,
        source: Source,
        connection: Connection,
        incoming: Incoming,
        arrival: Arrival,
        headers: Mapping[str, str],
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
            _encode(headers).decode(),
            incoming.body,
            len(incoming.body),
            None if listened else self._unheard(project_id, source.name, arrival.topics or ()),
        )


def _kept_headers(source: Source, incoming: Incoming) -> dict[str, str]:
    get = incoming.headers.get
    return {name: storable_text(value) for name in source.kept_headers if (value := get(name)) is not None}
