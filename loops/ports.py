"""What the middle asks of the outside: Protocols that the composition root fills.

Values that cross a port are plain: ids, mappings, datetimes. `Connection` is SQLAlchemy's; a function that is handed
one runs inside a transaction that it neither begins nor ends.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from loops.event import JsonValue

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

    def enqueue_task(self, connection: "Connection", task_id: str, seq: int) -> None:
        """Put a task's work into the queue as part of the caller's transaction."""

    async def wake(self, run_id: str, seq: int) -> None:
        """Make a parked segment due now. Safe to repeat; does nothing to one that is running or over."""

    async def drop(self, run_id: str, seq: int) -> None:
        """Forget a segment that has not begun."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that a message comes from, and the step of it, None where none waits for it. `key` is the same whenever
    the same message is asked for again."""

    project_id: str
    run_id: str
    step_id: str | None
    key: str


@dataclass(frozen=True, slots=True)
class Posted:
    """A stored message: where it stands, in a word and in words, and what mends it.

    It `rests` when nothing more happens to it by itself: it is sent, refused, shown on the page alone, or nobody knows
    whether it was sent (`uncertain`). `refs` are what the receiving service calls its parts.
    """

    id: str
    status: str
    rests: bool
    code: str = ""
    reason: str = ""
    mend: str = ""
    refs: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """A message that is not sent: how it would have come to rest if everything went well, and what would be sent, as
    JSON."""

    posted: Posted
    told: Mapping[str, JsonValue]


class Messages(Protocol):
    """The outbox, as steps use it: each call is part of the caller's transaction."""

    def put(
        self,
        connection: "Connection",
        kind: str,
        inputs: Mapping[str, JsonValue],
        origin: Origin,
        *,
        notice: str = "",
    ) -> Posted:
        """Store a message of a kind (`slack`, `email`, `page`) made of a template's rendered inputs, to be sent after
        the commit; with a `notice` that stands before all it says. One key is one message. Raises StepFailed where the
        inputs make none."""

    def preview(self, connection: "Connection", kind: str, inputs: Mapping[str, JsonValue], origin: Origin) -> Preview:
        """What `put` would come to. Stores and sends nothing; the connection need not be one that can write. Raises as
        `put`."""

    def state(self, connection: "Connection", message_id: str) -> Posted:
        """Where a message stands. Raises NotFound."""

    def withdraw(self, connection: "Connection", message_id: str) -> bool:
        """See to it that a message is never sent; False when it is being sent, or was."""

    def give_up(self, connection: "Connection", message_id: str) -> bool:
        """Nobody waits any longer for a message that does not rest: it is refused, and sent only if a person asks.
        False while that cannot be had, since somebody sends it or looks for it, or its turn has just come."""

    def wake(self) -> None:
        """After a commit: something was put, and may be sent now."""
