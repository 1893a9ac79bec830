"""What a task does at this moment, told in the database about once a second: for whoever looks at its page."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from loops.agent.transcript import Call, CallResult
from loops.errors import RunFenced, StoreBusy
from loops.ports import Clock, Writer
from loops.storable import storable
from loops.store import tasks as store
from loops.tasks.journal import masked

log = logging.getLogger("loops.tasks")

EVERY_SECONDS = 0.7
_TAIL = 2_000


class Activity:
    """Watches an agent, and stores the latest of what it saw. Use it as `async with`; nothing waits for it.

    The stored form: {"round", "phase": "asking" | "calling" | "retrying", "text", "calls", "why", "since"}.
    """

    def __init__(
        self, writer: Writer, clock: Clock, task_id: str, owner: str, mask: Callable[[str], str] = lambda text: text
    ) -> None:
        self._mask = mask
        self._writer = writer
        self._clock = clock
        self._task_id = task_id
        self._owner = owner
        self._now: dict[str, Any] = {}
        self._fresh = False
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._telling = asyncio.create_task(self._tell(), name=f"activity-{self._task_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    def asked(self, number: int) -> None:
        """See Observer."""
        self._set(number, "asking")

    def said(self, number: int, text: str) -> None:  # noqa: ARG002 - of the round that was asked for
        """See Observer."""
        self._now["text"] = (self._now.get("text", "") + text)[-_TAIL:]
        self._fresh = True

    def retrying(self, number: int, why: str, seconds: float) -> None:
        """See Observer."""
        self._set(number, "retrying", why=f"{why}; again in {seconds:.0f} s")

    def called(self, number: int, call: Call) -> None:
        """See Observer."""
        if self._now.get("phase") != "calling" or self._now.get("round") != number:
            self._set(number, "calling")
        self._now["calls"].append(call.name)
        self._fresh = True

    def returned(self, number: int, result: CallResult) -> None:  # noqa: ARG002
        """See Observer."""
        if result.name in self._now.get("calls", []):
            self._now["calls"].remove(result.name)
            self._fresh = True

    def _set(self, number: int, phase: str, *, why: str = "") -> None:
        since = self._clock.now().isoformat()
        self._now = {"round": number, "phase": phase, "text": "", "calls": [], "why": why, "since": since}
        self._fresh = True

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            if not self._fresh:
                continue
            self._fresh = False
            try:
                await self._store({**self._now, "calls": list(self._now.get("calls", []))})
            except StoreBusy:
                self._fresh = True
            except RunFenced:  # the journal meets it too, and ends the work
                return

    async def _store(self, activity: Mapping[str, Any]) -> None:
        here, now = (self._task_id, self._owner), self._clock.now()
        told = storable(dict(activity))
        shown = masked(told, self._mask) if isinstance(told, dict) else {}
        await self._writer.run(lambda connection: store.tell(connection, *here, shown, now))
