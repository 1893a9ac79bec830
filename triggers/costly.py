"""Which bodies take so long to read that nobody else may wait for it: neither those who send nor those who write."""

from triggers.posthog.event import SOURCE as POSTHOG

LARGE = 64 * 1024
"""In bytes, as it came; what is smaller is read within some milliseconds, whatever it holds."""

# Deflate makes at most 1,032 times as much of it.
_MAY_BECOME_LARGE = LARGE // 1032


def is_costly(source: str, body: bytes) -> bool:
    """Whether a body of this source is large, or so packed that it may become so."""
    if len(body) > LARGE:
        return True
    return source == POSTHOG and len(body) > _MAY_BECOME_LARGE and body.lstrip()[:1] not in {b"{", b"["}
