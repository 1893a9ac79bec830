"""The clock: it looks when something is due, when it is told to, and again when the database was away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from loops.errors import StoreBusy
from triggers.schedule.claim import Occurrences
from triggers.schedule.clock import ScheduleClock


class Looks:
    """Occurrences that note when somebody looks for them; `left` is how long it is to the next one each time."""

    def __init__(self, left: Callable[[int], float | None]) -> None:
        self.count = 0
        self.armed = 0
        self._left = left
        self._looked = asyncio.Condition()

    async def arm(self) -> None:
        self.armed += 1

    async def claim(self) -> int:
        return 1

    async def seconds_to_next(self) -> float | None:
        self.count += 1
        async with self._looked:
            self._looked.notify_all()
        return self._left(self.count)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self._looked:
            await self._looked.wait_for(lambda: self.count >= count)


@asynccontextmanager
async def ticking(looks: Looks) -> AsyncIterator[tuple[ScheduleClock, "asyncio.Task[None]"]]:
    clock = ScheduleClock(cast("Occurrences", looks))
    task = asyncio.create_task(clock.forever())
    try:
        yield clock, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_looks_at_once_and_again_when_the_next_one_is_due():
    looks = Looks(lambda _count: 0.05)
    async with ticking(looks):
        await looks.until(5)
    assert looks.armed == 1


async def test_it_looks_as_soon_as_it_is_told_to():
    looks = Looks(lambda _count: None)
    async with ticking(looks) as (clock, _):
        for count in range(1, 6):
            await looks.until(count)
            clock.wake()
        await looks.until(6)


async def test_it_looks_every_few_seconds_for_what_other_processes_changed():
    looks = Looks(lambda _count: 3600.0)
    async with ticking(looks):
        await looks.until(2)


async def test_it_looks_again_after_the_database_was_away():
    def left(count: int) -> float:
        if count < 3:
            raise StoreBusy("the database does not answer")
        return 3600.0

    looks = Looks(left)
    async with ticking(looks) as (_, task):
        await looks.until(3)
        assert not task.done()


async def test_what_else_goes_wrong_ends_it():
    def left(_count: int) -> float:
        raise RuntimeError("this was not foreseen")

    async with ticking(Looks(left)) as (_, task):
        with pytest.raises(RuntimeError, match="not foreseen"):
            await asyncio.wait_for(task, 20)
