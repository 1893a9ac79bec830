"""Whose turn it is to forecast."""

import asyncio

import pytest

from loops.errors import Busy
from triggers.forecast_turns import Turns


async def test_a_project_has_one_turn_and_keeps_no_other_from_its_own():
    turns = Turns(seconds=0.01)
    async with turns.of("one"):
        with pytest.raises(Busy, match="of this project") as busy:
            async with turns.of("one"):
                pytest.fail("it had a second turn")
        async with turns.of("another"):
            pass
    assert (busy.value.http_status, busy.value.retryable) == (503, True)
    async with turns.of("one"):
        pass


async def test_a_process_has_as_many_turns_as_it_may():
    turns = Turns(at_once=1, seconds=0.01)
    async with turns.of("one"):
        with pytest.raises(Busy, match="of other projects"):
            async with turns.of("another"):
                pytest.fail("it had its turn")
    async with turns.of("another"):
        pass


async def test_who_waits_has_its_turn_once_the_other_is_over():
    turns, order = Turns(), []

    async def ask(name: str) -> None:
        async with turns.of("one"):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(ask("a"), ask("b"))
    assert order == ["a", "b"]


async def test_what_fails_in_its_turn_gives_it_back_and_is_told_as_it_is():
    turns = Turns(seconds=0.01)
    with pytest.raises(TimeoutError):
        async with turns.of("one"):
            raise TimeoutError
    async with turns.of("one"):
        pass
