"""Slack's signature: HMAC-SHA256 over version, timestamp and raw body, as `X-Slack-Signature: v0=<hex>`."""

import hmac

from loops.errors import SignatureInvalid

WINDOW_SECONDS = 300
"""How far the sender's clock may be from ours, either way."""

_PREFIX = b"v0="
# In seconds since 1970; with more digits it is no time that anybody means.
_MOST_DIGITS = 12


def verify(signature: str | None, timestamp: str | None, body: bytes, secret: str, now: float) -> None:
    """Raises SignatureInvalid unless the header signs exactly these bytes with the secret, and was made lately.

    `now` is in seconds since 1970. The hex digits may be in either case. A secret that is empty verifies nothing.
    """
    if not secret:
        raise SignatureInvalid(
            "the connection has no signing secret, so nothing can be verified",
            hint="set signing_secret to what stands under Basic Information in the app's settings, or use Socket Mode",
        )
    if not signature:
        raise SignatureInvalid(
            "the header X-Slack-Signature is missing", hint="Slack signs every request; a proxy must let it through"
        )
    sent = _seconds(timestamp)
    given = signature.encode("utf-8", "surrogatepass")  # bytes, as text that is not ASCII cannot be compared safely
    signed = b"v0:" + str(timestamp).encode() + b":" + body
    wanted = _PREFIX + hmac.digest(secret.encode(), signed, "sha256").hex().encode()
    if not hmac.compare_digest(given[: len(_PREFIX)] + given[len(_PREFIX) :].lower(), wanted):
        raise SignatureInvalid(
            "X-Slack-Signature does not sign this body with the connection's signing secret",
            hint="compare signing_secret with the app's Basic Information; a proxy must not change the body",
        )
    # Only now: whoever does not know the secret learns nothing about the clock here.
    apart = now - sent
    if abs(apart) > WINDOW_SECONDS:
        way = "behind" if apart > 0 else "ahead of"
        raise SignatureInvalid(
            f"the request was signed {abs(apart):.0f} s {way} this machine's clock; {WINDOW_SECONDS} s are allowed",
            hint="set this machine's clock by NTP; if it is right, somebody sent an old request again",
        )


def _seconds(timestamp: str | None) -> int:
    if not timestamp:
        raise SignatureInvalid(
            "the header X-Slack-Request-Timestamp is missing",
            hint="Slack sends it with every request; a proxy must let it through",
        )
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MOST_DIGITS):
        raise SignatureInvalid(
            "X-Slack-Request-Timestamp is no time: it must be whole seconds since 1970 by the sender's clock",
            hint="a proxy must not change it",
        )
    return int(timestamp)
