"""What the middle asks of the outside: Protocols that the composition root fills.

Values that cross a port are plain: ids, mappings, datetimes. `Connection` is SQLAlchemy's; a function that is handed
one runs inside a transaction that it neither begins nor ends.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""


class DeliveryRow(NamedTuple):
    """A delivery to be stored: `body` raw, `headers` as JSON text, times in microseconds since 1970.

    `unheard` is the definitions' epoch at which no loop listened for any of its events: if that is still the epoch when
    the row is stored, the delivery is settled with it. A tuple because one is made for every delivery.
    """

    id: str
    project_id: str
    connection_id: int
    source: str
    key: str
    name: str
    subject: str | None
    received_at: int
    verified: bool
    status: str
    reason: str
    headers: str
    body: bytes
    size: int
    unheard: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What accepting came to: the stored delivery's id, and whether this arrival was the first with its key."""

    id: str
    new: bool


class Writer(Protocol):
    """Every write to the domain tables goes through here.

    Both calls return after the commit. When the database cannot write now they raise StoreBusy and nothing is
    stored.
    """

    def accept(self, row: DeliveryRow) -> Awaitable[Receipt]:
        """Store a delivery, its body compressed, unless (connection, key) is known. What is accepted together shares
        one transaction."""

    async def run(self, fn: "Callable[[Connection], T]") -> T:
        """Run `fn` in a transaction of its own: all of it is committed, or, when it raises, nothing."""


class Reader(Protocol):
    """Reads that may run beside the writer and never change anything."""

    async def read(self, fn: "Callable[[Connection], T]") -> T:
        """Run `fn` on a connection that sees one committed state."""


class Engine(Protocol):
    """Starts, parks, wakes and drops the segments of a run. A segment is (run id, seq)."""

    def enqueue(self, connection: "Connection", run_id: str, seq: int, *, delay: float = 0.0) -> None:
        """Put a segment into the queue as part of the caller's transaction; `delay` in seconds parks it."""

    async def wake(self, run_id: str, seq: int) -> None:
        """Make a parked segment due now. Safe to repeat; does nothing to one that is running or over."""

    async def drop(self, run_id: str, seq: int) -> None:
        """Forget a segment that has not begun."""
