"""How the sender of a request proves itself, where its webhook has a secret.

Senders sign in headers of their own names, so what counts is what a header holds: the HMAC-SHA256 of the body, in hex
or base64, perhaps behind `sha256=`, or the secret itself, perhaps as a bearer token. Standard Webhooks headers decide
alone where they came.
"""

import base64
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from loops.errors import SignatureInvalid
from triggers.posthog.signature import SIGNATURE
from triggers.posthog.signature import verify as verify_standard

Proof: TypeAlias = Literal["id", "body", "request"]
"""What a proof covers: the body with its id, as Standard Webhooks sign them; the body alone, as any other signature; or
all of the request, which a secret in one of its headers came with."""

_LONGEST = 200
_PREFIX = "sha256="


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Proof:
    """What was proved. Raises SignatureInvalid unless the sender knows the secret."""
    if SIGNATURE in headers:
        verify_standard(headers, body, secret, now)
        return "id"
    if _is_signed(headers, body, secret):
        return "body"
    try:
        verify_standard(headers, body, secret, now)
    except SignatureInvalid as error:
        raise SignatureInvalid(
            "no header holds the webhook's secret or a signature of this body made with it",
            hint="send the secret in a header, or the body's HMAC-SHA256; a proxy must not change the body",
        ) from error
    return "request"


def _is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    digest = hmac.digest(secret.encode("utf-8", "surrogatepass"), body, "sha256")
    in_hex, in_base64 = digest.hex().encode(), base64.b64encode(digest)
    found = False
    for value in headers.values():
        if len(value) <= _LONGEST:
            given = value.removeprefix(_PREFIX).encode("utf-8", "surrogatepass")
            found |= hmac.compare_digest(given.lower(), in_hex) | hmac.compare_digest(given, in_base64)
    return found
