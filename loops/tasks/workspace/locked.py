"""A lock between all processes of this machine, on a file: the kernel gives it back when its holder dies."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from loops.errors import RepositoryError

_LOOK_SECONDS = 0.05


@asynccontextmanager
async def locked(file: Path, seconds: float) -> AsyncIterator[None]:
    """Held for as long as it is used. Raises RepositoryError where nobody lets go of it within `seconds`."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + seconds
        while not _taken(descriptor):
            if time.monotonic() > until:
                raise RepositoryError(f"another task holds {file.name} for more than {seconds:g} s")
            await asyncio.sleep(_LOOK_SECONDS)
        os.utime(descriptor)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
