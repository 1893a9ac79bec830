"""Blocking work beside the event loop, on threads of our own: the loop's default pool belongs to the engine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

AT_ONCE = 8
"""How many calls of `off_loop` are under way at once; one of the others begins when one of them is over."""

_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()
_within: ContextVar[bool] = ContextVar("within a call beside the loop", default=False)


async def off_loop(fn: Callable[[], T]) -> T:
    """Run a call that takes its time, such as reading what a stranger sent, on a thread made for it.

    It waits for its turn first. What such a call asks of the loop and waits for has its turn at once: nobody who has
    one waits for another. A caller who is cancelled goes on at once, and the turn ends with the call.
    """
    if _within.get():
        return await on_own_thread(fn)
    loop = asyncio.get_running_loop()
    turns = _turns.setdefault(loop, asyncio.Semaphore(AT_ONCE))
    await turns.acquire()

    def over(_call: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(turns.release)

    call = _begun(fn)
    call.add_done_callback(over)
    return await asyncio.wrap_future(call)


async def on_own_thread(fn: Callable[[], T]) -> T:
    """Run a blocking call that opens or closes something on a thread made for it, at once: what is being closed may
    wait for calls that wait for their turn."""
    return await asyncio.wrap_future(_begun(fn))


def _begun(fn: Callable[[], T]) -> "Future[T]":
    context = copy_context()
    context.run(_within.set, True)
    once = ThreadPoolExecutor(1, thread_name_prefix="loops-once")
    call = once.submit(context.run, fn)
    once.shutdown(wait=False)
    return call
