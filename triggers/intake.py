"""Accept: a verified arrival is stored, and only then answered."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec
import zstandard

from loops.ports import Clock, DeliveryRow, Writer
from loops.store.columns import to_micros
from loops.store.ids import new_id
from triggers.handoff import Handoff, Held
from triggers.source import Arrival, Incoming, Source
from triggers.storable import storable_text

_KEPT = re.compile("content-type|user-agent|(x-github-|x-slack-|webhook-)(?!.*signature).*", re.DOTALL)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection as receiving needs it: its secrets opened."""

    id: int
    project_id: str
    kind: str
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender is told."""

    delivery: str
    status: Literal["accepted", "duplicate", "ignored"]
    reason: str = ""


class Intake:
    """The receiving end of every source."""

    def __init__(self, writer: Writer, clock: Clock, handoff: Handoff, accepted: Callable[[], None]) -> None:
        self._writer = writer
        self._clock = clock
        self._handoff = handoff
        self._accepted = accepted
        self._zstd = zstandard.ZstdCompressor(level=1)

    async def receive(self, source: Source, connection: Connection, incoming: Incoming) -> Answer:
        """Verify, store, answer. Raises DeliveryError for what is refused and StoreBusy when nothing could be stored.

        The answer comes after the commit: from then on the delivery is not lost, whatever happens to this process.
        """
        arrival = source.receive(incoming, connection.secrets)
        headers = kept_headers(incoming.headers)
        row = self._row(source, connection, incoming, arrival, headers)
        if arrival.ignored is not None:
            receipt = await self._writer.accept(row)
            return Answer(receipt.id, "ignored" if receipt.new else "duplicate", arrival.ignored)
        # Before it is stored: a dispatcher may take the row as soon as it is.
        self._handoff.put(row.id, Held(headers, incoming.body, arrival.parsed))
        try:
            receipt = await self._writer.accept(row)
        except BaseException:
            self._handoff.take(row.id)
            raise
        if not receipt.new:
            self._handoff.take(row.id)
            return Answer(receipt.id, "duplicate", f"a delivery {arrival.key!r} was accepted before")
        self._accepted()
        return Answer(receipt.id, "accepted")

    def _row(
        self,
        source: Source,
        connection: Connection,
        incoming: Incoming,
        arrival: Arrival,
        headers: Mapping[str, str],
    ) -> DeliveryRow:
        return DeliveryRow(
            id=new_id(),
            project_id=connection.project_id,
            connection_id=connection.id,
            source=source.name,
            key=storable_text(arrival.key),
            name=storable_text(arrival.name),
            subject=None if arrival.subject is None else storable_text(arrival.subject),
            received_at=to_micros(self._clock.now()),
            verified=arrival.verified,
            status="accepted" if arrival.ignored is None else "ignored",
            reason=arrival.ignored or "",
            headers=_encode(headers).decode(),
            body=self._zstd.compress(incoming.body),
            size=len(incoming.body),
        )


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say what a delivery is, by their names in lower case, without signatures and credentials: a
    signature is a secret's shadow, and worth nothing after verification."""
    return {kept: storable_text(value) for name, value in headers.items() if (kept := _kept_name(name))}


@lru_cache(1000)
def _kept_name(name: str) -> str | None:
    """The name to keep a header by. Senders use few names; a stranger's many push each other out."""
    folded = name.lower()
    return folded if _KEPT.fullmatch(folded) else None
