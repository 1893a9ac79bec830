"""File descriptors: one a connection. Without any left nobody is let in, and nothing else says why."""

import asyncio
import errno
import logging
import resource
from collections.abc import Callable
from pathlib import Path
from time import monotonic

log = logging.getLogger("loops.descriptors")

MOST = 65_536
_EVERY_SECONDS = 2.0
_QUIET_SECONDS = 60.0
# Few enough that the next connections are refused.
_LEFT = 16
_FOLDERS = (Path("/proc/self/fd"), Path("/dev/fd"))


def raise_limit() -> None:
    """As many as the system lets this process have, up to `MOST`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def used_and_limit() -> tuple[int, int]:
    """How many descriptors this process has, and how many it may have."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 0, MOST
    for folder in _FOLDERS:
        try:
            return sum(1 for _ in folder.iterdir()), limit
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:  # not even one to look with
                return limit, limit
    return 0, limit


async def watch_descriptors(ask: Callable[[], tuple[int, int]] = used_and_limit) -> None:
    """Say it once a minute while there are none left, and when there are some again."""
    told_at: float | None = None
    while True:
        used, limit = ask()
        if used + _LEFT >= limit:
            if told_at is None or monotonic() - told_at >= _QUIET_SECONDS:
                told_at = monotonic()
                log.error(
                    "no file descriptors are left: connections are refused, deliveries too. Allow more (ulimit -n, or "
                    "LimitNOFILE of a systemd unit), and have the reverse proxy limit connections and close idle ones",
                    extra={"used": used, "limit": limit},
                )
        elif told_at is not None:
            told_at = None
            log.warning("there are file descriptors again", extra={"used": used, "limit": limit})
        await asyncio.sleep(_EVERY_SECONDS)
