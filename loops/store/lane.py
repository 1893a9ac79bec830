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
from loops.threads import off_loop

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

# A transaction takes at most this much, so that nobody waits behind a flood of closures.
_MOST_DELIVERIES = 256
_MOST_CLOSURES = 16


@dataclass(slots=True)
class Waiting:
    """A caller's request, and the future that it awaits."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    row: DeliveryRow | None = None
    fn: "Callable[[Connection], Any] | None" = None
    result: Any = None
    error: BaseException | None = None


class Transact(Protocol):
    """Writes one group: fills `result` or `error` of each, commits, and raises if nothing was committed.

    Raises StoreBusy when the database cannot work, whoever is in the group, and anything else for what one of them
    brought with it.
    """

    def __call__(self, rows: list[Waiting], closures: list[Waiting]) -> None: ...


def settle(waiting: list[Waiting]) -> None:
    """Answer the callers, one wake-up of the event loop for all of them."""
    if not waiting:
        return
    loop = waiting[0].loop
    try:
        loop.call_soon_threadsafe(_resolve, waiting)
    except RuntimeError:  # the loop is closed: nobody awaits these any more
        return


def _resolve(waiting: list[Waiting]) -> None:
    for one in waiting:
        if one.future.done():
            continue
        if one.error is not None:
            one.future.set_exception(one.error)
        else:
            one.future.set_result(one.result)


class Lane:
    """The thread and its queue. `open_` runs on the thread before the first group, `close` after the last."""

    def __init__(self, name: str, transact: Transact, *, close: Callable[[], None]) -> None:
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._transact = transact
        self._close = close
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return self._queue.qsize()

    async def accept(self, row: DeliveryRow) -> Receipt:
        """See Writer.accept."""
        receipt: Receipt = await self._put(row=row)
        return receipt

    async def run(self, fn: "Callable[[Connection], T]") -> T:
        """See Writer.run."""
        result: T = await self._put(fn=fn)
        return result

    def _put(self, **what: Any) -> "asyncio.Future[Any]":  # noqa: ANN401
        self.check_open()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.put(Waiting(loop, future, **what))
        return future

    def check_open(self) -> None:
        """Raises StoreBusy once the lane has been closed."""
        if self._closed:
            raise StoreBusy("the store is closed: this process is stopping", hint="send the request again")

    async def aclose(self) -> None:
        """Finish what waits, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await off_loop(self._thread.join)

    def _work(self) -> None:
        ending = False
        while not ending:
            rows: list[Waiting] = []
            closures: list[Waiting] = []
            item = self._queue.get()
            while True:
                if item is None:
                    ending = True
                    break
                (rows if item.row is not None else closures).append(item)
                if len(rows) >= _MOST_DELIVERIES or len(closures) >= _MOST_CLOSURES:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if rows or closures:
                self._group(rows, closures)
        self._close()

    def _group(self, rows: list[Waiting], closures: list[Waiting]) -> None:
        if self._written(rows, closures) or len(rows) + len(closures) == 1:
            settle(rows + closures)
            return
        for one in rows:  # who cannot be stored must not keep the others from it
            self._written([one], [])
        for one in closures:
            self._written([], [one])
        settle(rows + closures)

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
