"""Which bodies take so long to read that nobody else may wait for it: neither those who send nor those who write."""

from loops.errors import PayloadMalformed, PayloadTooLarge
from triggers.posthog.body import unpack
from triggers.posthog.event import SOURCE as POSTHOG

LARGE = 64 * 1024
"""In bytes, as it came; what is smaller is read within some milliseconds, whatever it holds."""


def is_costly(source: str, body: bytes) -> bool:
    """Whether a body of this source is large, or so packed that it becomes so."""
    if len(body) > LARGE:
        return True
    if source != POSTHOG or body[:1] in {b"{", b"["}:
        return False
    try:
        unpack(body, LARGE)
    except PayloadTooLarge:
        return True
    except PayloadMalformed:
        pass  # what is wrong with it is told where it is read
    return False
