"""One thread that owns one connection and writes whatever waits together in one transaction.

Committing on the event loop's thread would deadlock with any transaction left open there, and a thread hop a
delivery costs more than the write; so callers queue here and are answered together after the commit.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from loops.errors import StoreBusy
from loops.ports import DeliveryRow, Receipt
from loops.threads import on_own_thread

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

# A transaction takes at most this much, so that nobody waits behind a flood of closures.
_MOST_DELIVERIES = 256
_MOST_CLOSURES = 16


@dataclass(slots=True, eq=False)
class Waiting:
    """A caller's request, and the future that it awaits."""

    future: "asyncio.Future[Any]"
    row: DeliveryRow | None = None
    fn: "Callable[[Connection], Any] | None" = None
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    loop: asyncio.AbstractEventLoop
    rows: list[Waiting]
    closures: list[Waiting]


class Transact(Protocol):
    """Writes one group: fills `result` or `error` of each, commits, and raises if nothing was committed.

    Raises StoreBusy when the database cannot work, whoever is in the group, and anything else for what one of them
    brought with it.
    """

    def __call__(self, rows: list[Waiting], closures: list[Waiting]) -> None: ...


class Lane:
    """The thread, and what waits for it. `close` runs on the thread after the last group.

    What is asked for while a group is written waits on the event loop and becomes the next group: one hand-over and
    one wake-up a group, and the busier it is the larger the groups are. Used from one event loop.
    """

    def __init__(self, name: str, transact: Transact, *, close: Callable[[], None]) -> None:
        self._queue: queue.SimpleQueue[_Group | None] = queue.SimpleQueue()
        self._transact = transact
        self._close = close
        self._rows: list[Waiting] = []
        self._closures: list[Waiting] = []
        self._scheduled = False
        self._busy = False
        self._closed = False
        self._drained: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return len(self._rows) + len(self._closures)

    def accept(self, row: DeliveryRow) -> "asyncio.Future[Receipt]":
        """See Writer.accept."""
        waiting = self._waiting()
        waiting.row = row
        self._rows.append(waiting)
        return waiting.future

    async def run(self, fn: "Callable[[Connection], T]") -> T:
        """See Writer.run."""
        waiting = self._waiting()
        waiting.fn = fn
        self._closures.append(waiting)
        result: T = await waiting.future
        return result

    def _waiting(self) -> Waiting:
        if self._closed:
            self.check_open()
        loop = asyncio.get_running_loop()
        if not self._busy and not self._scheduled:
            # At the end of this turn of the loop, so that what else it brings comes along.
            self._scheduled = True
            loop.call_soon(self._hand_over, loop)
        return Waiting(loop.create_future())

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled = False
        if self._busy or not (self._rows or self._closures):
            return
        self._busy = True
        group = _Group(loop, self._rows[:_MOST_DELIVERIES], self._closures[:_MOST_CLOSURES])
        self._rows, self._closures = self._rows[_MOST_DELIVERIES:], self._closures[_MOST_CLOSURES:]
        self._queue.put(group)

    def _written_group(self, group: _Group) -> None:
        """On the event loop: the thread gets its next group first, then the callers get their answers."""
        self._busy = False
        self._hand_over(group.loop)
        for one in (*group.rows, *group.closures):
            if one.future.done():  # its caller was cancelled
                continue
            if one.error is None:
                one.future.set_result(one.result)
            else:
                one.future.set_exception(one.error)
        if self._drained is not None and not self._busy and not self._drained.done():
            self._drained.set_result(None)

    def check_open(self) -> None:
        """Raises StoreBusy once the lane has been closed."""
        if self._closed:
            raise StoreBusy("the store is closed: this process is stopping", hint="send the request again")

    async def aclose(self) -> None:
        """Finish what waits, then end the thread."""
        if not self._closed:
            self._closed = True
            if self._busy or self._scheduled:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
            self._queue.put(None)
        await on_own_thread(self._thread.join)

    def _work(self) -> None:
        while (group := self._queue.get()) is not None:
            self._write(group.rows, group.closures)
            try:
                group.loop.call_soon_threadsafe(self._written_group, group)
            except RuntimeError:  # the loop is closed: nobody awaits these any more
                break
        self._close()

    def _write(self, rows: list[Waiting], closures: list[Waiting]) -> None:
        if self._written(rows, closures) or len(rows) + len(closures) == 1:
            return
        for one in rows:  # who cannot be stored must not keep the others from it
            self._written([one], [])
        for one in closures:
            self._written([], [one])

    def _written(self, rows: list[Waiting], closures: list[Waiting]) -> bool:
        """Write a group; False when it has to be written one by one, to see whose fault it is."""
        for one in rows + closures:
            one.error = None
        try:
            self._transact(rows, closures)
        except BaseException as error:  # noqa: BLE001 - it travels to every caller, who must not wait for ever
            for one in rows + closures:
                one.error = error
            return isinstance(error, StoreBusy)
        return True
