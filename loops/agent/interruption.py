"""Work that a cancel or the clock may interrupt, and that is really over when either has."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """The work was stopped and has ended."""


class Aborted(Interrupted):
    """Somebody asked for it."""


class Expired(Interrupted):
    """The time for it was over."""


class Abort:
    """A request to stop. It may come from anywhere on the event loop, once and for all."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Stop."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether somebody asked."""
        return self._asked.is_set()

    async def within(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The work's result. Raises Aborted or Expired once it has been cancelled and has ended.

        A caller that is itself cancelled takes the work with it.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({task, stop}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                return task.result()
            raise Aborted if stop.done() else Expired
        finally:
            await _ended(task, stop)


async def _ended(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
