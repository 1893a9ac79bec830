"""Holding on while the database does not answer."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.ports import Writer

log = logging.getLogger("loops.store")

T = TypeVar("T")
# Seconds between tries; after them the sweeper finds what could not be stored.
_PAUSES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 10, 10, 10, 10)


async def persist(writer: Writer, fn: Callable[[sa.Connection], T]) -> T:
    """Run `fn` in a transaction, again and again for about a minute. Raises StoreBusy in the end."""
    for pause in _PAUSES:
        try:
            return await writer.run(fn)
        except StoreBusy as error:
            log.warning("waiting for the database: %s", error.message)
            await asyncio.sleep(pause)
    return await writer.run(fn)
