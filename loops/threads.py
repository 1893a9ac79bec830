"""Blocking work beside the event loop, on threads of our own: the loop's default pool belongs to the engine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def off_loop(fn: Callable[[], T]) -> T:
    """Run one blocking call, such as opening or closing something, on a thread made for it."""
    with ThreadPoolExecutor(1, thread_name_prefix="loops-once") as once:
        return await asyncio.get_running_loop().run_in_executor(once, fn)
