import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from loops.threads import AT_ONCE, off_loop, on_own_thread


class Gate:
    """Calls that wait at it, until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self.done = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        assert self.open.wait(20)
        with self._lock:
            self.inside -= 1
            self.done += 1


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - another thread makes it so
            await asyncio.sleep(0.01)


@asynccontextmanager
async def waiting(gate: Gate, count: int) -> "AsyncIterator[list[asyncio.Task[None]]]":
    """So many calls at the gate, or waiting for their turn; seen to their end."""
    calls = [asyncio.create_task(off_loop(gate)) for _ in range(count)]
    try:
        await until(lambda: gate.inside >= min(count, AT_ONCE))
        yield calls
    finally:
        gate.open.set()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_so_many_calls_are_under_way_at_once_and_the_others_have_their_turn_later() -> None:
    gate = Gate()
    async with waiting(gate, 3 * AT_ONCE):
        await asyncio.sleep(0.1)
    assert (gate.most, gate.done) == (AT_ONCE, 3 * AT_ONCE)


async def test_a_call_that_waits_for_another_through_the_loop_has_it_though_every_turn_is_taken() -> None:
    loop = asyncio.get_running_loop()
    begun = threading.Barrier(AT_ONCE, timeout=20)

    def outer(number: int) -> int:
        begun.wait()  # every turn is taken now
        inner = asyncio.run_coroutine_threadsafe(off_loop(lambda: number), loop)
        again = asyncio.run(off_loop(lambda: number))
        return inner.result(20) + again

    told = await asyncio.gather(*(off_loop(lambda number=n: outer(number)) for n in range(AT_ONCE)))  # type: ignore[misc]
    assert told == [2 * number for number in range(AT_ONCE)]


async def test_what_opens_or_closes_something_waits_for_no_turn() -> None:
    gate = Gate()
    async with waiting(gate, AT_ONCE), asyncio.timeout(20):
        assert await on_own_thread(lambda: "closed") == "closed"


async def test_a_cancelled_caller_goes_on_at_once_and_its_call_keeps_the_turn() -> None:
    gate = Gate()
    async with waiting(gate, AT_ONCE + 1) as calls:
        calls[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[0]
        calls[-1].cancel()  # while it waits for its turn
        later = asyncio.create_task(off_loop(gate))
        await asyncio.sleep(0.1)
        assert (gate.inside, gate.done, later.done()) == (AT_ONCE, 0, False)
        gate.open.set()
        await later
    await until(lambda: gate.done == AT_ONCE + 1)


async def test_what_a_call_raises_reaches_its_caller_and_ends_its_turn() -> None:
    for _ in range(2 * AT_ONCE):
        with pytest.raises(ZeroDivisionError):
            await off_loop(lambda: 1 // 0)
    assert await off_loop(lambda: "free") == "free"
