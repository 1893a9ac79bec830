"""GitHub's signature: HMAC-SHA256 over the raw body, as `X-Hub-Signature-256: sha256=<hex>`."""

import hmac

from loops.errors import SignatureInvalid

_PREFIX = b"sha256="


def verify(header: str | None, body: bytes, secret: str) -> None:
    """Raises SignatureInvalid unless the header signs exactly these bytes with the secret.

    The hex digits may be in either case, as hex is; the prefix may not. The older SHA-1 header never counts, neither
    alone nor beside a wrong SHA-256. A secret that is empty verifies nothing.
    """
    if not secret:
        raise SignatureInvalid(
            "the connection has no webhook secret, so no delivery can be verified",
            hint="set webhook_secret to what stands in the webhook's settings on GitHub",
        )
    if not header:
        raise SignatureInvalid(
            "the header X-Hub-Signature-256 is missing",
            hint="set the secret in the webhook's settings on GitHub; X-Hub-Signature (SHA-1) is not taken",
        )
    given = header.encode("utf-8", "surrogatepass")  # bytes, as text that is not ASCII cannot be compared safely
    wanted = _PREFIX + hmac.digest(secret.encode(), body, "sha256").hex().encode()
    if not hmac.compare_digest(given, wanted) and not hmac.compare_digest(_lowered(given), wanted):
        raise SignatureInvalid(
            "X-Hub-Signature-256 does not sign this body with the connection's secret",
            hint="compare the secret with the webhook's settings on GitHub; a proxy must not change the body",
        )


def _lowered(given: bytes) -> bytes:
    return given[: len(_PREFIX)] + given[len(_PREFIX) :].lower()
