"""The clock: APScheduler wakes this process when the next occurrence of any schedule is due.

It keeps one job, in memory: when to look. What is due stands in the database, so every process may have a clock of its
own, and none of them knows more than the others. It looks every few seconds besides, for what other processes changed.
"""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from loops.errors import StoreBusy
from triggers.schedule.claim import Occurrences

log = logging.getLogger("loops.schedule")

LOOK_SECONDS = 2.0
_BUSY_SECONDS = 0.5
_HELD_SECONDS = 0.1
_JOB = "occurrences"


class ScheduleClock:
    """Claims occurrences for as long as `forever` runs."""

    def __init__(self, occurrences: Occurrences) -> None:
        self._occurrences = occurrences
        self._rung = asyncio.Event()
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    def wake(self) -> None:
        """Something may be due at another time than before."""
        self._rung.set()

    async def forever(self) -> None:
        """Claim what is due when it is, until cancelled; what is claimed is committed whole or not at all."""
        self._scheduler.start()
        try:
            await self._armed()
            while True:
                self._rung.clear()
                self._wind(await self._look())
                await self._rung.wait()
        finally:
            self._scheduler.shutdown(wait=False)

    async def _armed(self) -> None:
        try:
            await self._occurrences.arm()
        except StoreBusy as error:
            log.warning("schedules are not armed: %s", error.message)

    async def _look(self) -> float:
        """Claim what is due; in how many seconds to look again."""
        try:
            claimed = await self._occurrences.claim()
            left = await self._occurrences.seconds_to_next()
        except StoreBusy as error:
            log.warning("schedules wait for the database: %s", error.message)
            return _BUSY_SECONDS
        # What is due and could not be claimed is in the hands of another process.
        least = 0.0 if claimed else _HELD_SECONDS
        return LOOK_SECONDS if left is None else min(max(left, least), LOOK_SECONDS)

    def _wind(self, seconds: float) -> None:
        """Ring in so many seconds, in place of what was set before."""
        self._scheduler.add_job(
            self._ring,
            "date",
            run_date=datetime.now(UTC) + timedelta(seconds=seconds),
            id=_JOB,
            replace_existing=True,
            misfire_grace_time=None,
            max_instances=10,
        )

    async def _ring(self) -> None:
        self._rung.set()
