"""Whose turn it is to forecast: one of a project, few in a process, and nobody waits for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from loops.errors import Busy

AT_ONCE = 2
WAIT_SECONDS = 10.0


class Turns:
    """Of two of one project one waits, whatever the others do: it cannot keep all of the process."""

    def __init__(self, at_once: int = AT_ONCE, seconds: float = WAIT_SECONDS) -> None:
        self._at_once = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._projects: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, project_id: str) -> AsyncIterator[None]:
        """The turn of a project. Raises Busy where it does not come in `seconds`."""
        project = self._projects.setdefault(project_id, asyncio.Lock())
        async with AsyncExitStack() as stack:
            whose = "of this project"
            try:
                async with asyncio.timeout(self._seconds):
                    await stack.enter_async_context(project)
                    whose = "of other projects"
                    await stack.enter_async_context(self._at_once)
            except TimeoutError:
                told = f"forecasts {whose} are under way for more than {self._seconds:g} s"
                raise Busy(told, hint="ask again in a minute") from None
            yield
