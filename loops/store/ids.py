"""Ids that sort by the time they were made."""

import os
import secrets
import threading
import time

_CHANCE_BITS = 52
# Below half of what fits, so that counting up from it within a millisecond never reaches the next.
_chance = secrets.randbits(_CHANCE_BITS - 1)
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A 24-digit hexadecimal id: the milliseconds since 1970, then 52 bits that chance gave this process and that it
    counts up from. Rising within one process, also when its clock is set back; unique among many."""
    global _last
    now = (time.time_ns() // 1_000_000 << _CHANCE_BITS) + _chance
    with _lock:
        _last = fresh = now if now > _last else _last + 1
    return f"{fresh:024x}"


def _draw() -> None:
    global _chance
    _chance = secrets.randbits(_CHANCE_BITS - 1)


# Two processes forked from one that had imported this would count up from the same chance.
os.register_at_fork(after_in_child=_draw)
