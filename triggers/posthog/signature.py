"""How a webhook proves itself: Standard Webhooks headers, or the secret itself in a header."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta

from loops.errors import SignatureInvalid

TOLERANCE = timedelta(minutes=5)
"""How far the time in a signature may lie from now, either way."""

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_PREFIX = "whsec_"
_MOST_SIGNATURES = 20
_LONGEST_SECRET = 20_000


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Raises SignatureInvalid unless the sender knows the secret.

    A request that carries a signature is judged by it alone. Without one, the secret may stand in a header of any name,
    as itself or as a bearer token: that is how destinations are set up that do not sign.
    """
    signature = headers.get(SIGNATURE)
    if signature is not None:
        _check_signature(headers, signature, body, secret, now)
    elif not _holds(headers, secret):
        raise SignatureInvalid(
            "the delivery is not signed, and no header holds the connection's webhook_secret",
            hint="set a signing secret in the destination, or a header such as X-Webhook-Secret with the secret",
        )


def _check_signature(headers: Mapping[str, str], signature: str, body: bytes, secret: str, now: datetime) -> None:
    key, stamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    if not key or not stamp:
        raise SignatureInvalid(f"the headers {ID} and {TIMESTAMP} must stand beside {SIGNATURE}")
    _check_time(stamp, now)
    signed = b".".join([_bytes(key), _bytes(stamp), body])
    wanted = _bytes(base64.b64encode(hmac.digest(_key(secret), signed, "sha256")).decode())
    found = False
    for one in signature.split(" ")[:_MOST_SIGNATURES]:
        version, _, value = one.partition(",")
        found |= version == "v1" and hmac.compare_digest(_bytes(value), wanted)
    if not found:
        raise SignatureInvalid(
            f"{SIGNATURE} does not sign this body with the connection's webhook_secret",
            hint="compare the secret with the sender's; a proxy must not change the body",
        )


def _check_time(stamp: str, now: datetime) -> None:
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise SignatureInvalid(f"the header {TIMESTAMP} is no number of seconds since 1970")
    if abs(now.timestamp() - int(stamp)) > TOLERANCE.total_seconds():
        raise SignatureInvalid(
            f"{TIMESTAMP} is more than {TOLERANCE.seconds // 60} minutes from now",
            hint="compare the clocks; a delivery that is sent again is signed anew",
        )


def _key(secret: str) -> bytes:
    """The bytes that are signed with: what a `whsec_` secret encodes, else the secret as it stands."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            return _bytes(secret)
    return _bytes(secret)


def _holds(headers: Mapping[str, str], secret: str) -> bool:
    wanted = _bytes(secret)
    found = False
    for value in headers.values():
        if len(value) <= _LONGEST_SECRET:
            given = _bytes(value)
            bare = given[7:] if given[:7].lower() == b"bearer " else given
            found |= hmac.compare_digest(given, wanted) | hmac.compare_digest(bare, wanted)
    return found


def _bytes(text: str) -> bytes:
    # Bytes, as text that is not ASCII cannot be compared safely.
    return text.encode("utf-8", "surrogatepass")
