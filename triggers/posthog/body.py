"""The bodies that PostHog and its SDKs send, as bytes to JSON values.

How a body is packed is told by the body itself: posthog-js sends gzip without saying so in a header.
"""

import base64
import binascii
import re
import zlib

import msgspec

from loops.errors import PayloadMalformed, PayloadTooLarge
from loops.event import JsonValue
from loops.storable import storable
from triggers.json_body import check_nesting, from_form, tolerant, too_nested

LIMIT = 20 * 1024 * 1024
"""The most bytes of a captured body, as it comes and unpacked: what PostHog takes itself."""

WEBHOOK_LIMIT = 5 * 1024 * 1024
"""The same of a webhook destination's body, which tells of one event."""

MOST_VALUES = 500_000
"""What holds more, told by commas and brackets, takes a hundred times its size in memory and long to read,
and is nobody's batch."""

MOST_DIGITS = 1_000_000
"""In numbers of 500 digits or more: what they take to read grows with the square of their length."""

MOST_TOLERATED = 2 * 1024 * 1024
"""What only the tolerant decoder reads may not be larger: it is slow, and anybody can send to a capture endpoint."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_FORM = re.compile(rb"[A-Za-z0-9_.%-]{1,40}=")
_FIELD = "data"
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\s-]+={0,2}")
_MOST_LAYERS = 4  # a form that holds base64 of gzip of JSON
_ANY: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_LONG_NUMBER = 500
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def unpack(body: bytes, limit: int = LIMIT) -> bytes:
    """The JSON in a body: gzip, base64 and a form's field `data` are taken off, whichever lies around which.

    Raises PayloadMalformed, or PayloadTooLarge as soon as more than `limit` bytes would come out.
    """
    for _ in range(_MOST_LAYERS):
        if body.startswith(_GZIP):
            body = _gunzipped(body, limit)
            continue
        body = body.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
        if body[:1] in {b"{", b"["} or not body:
            break
        if _FORM.match(body) and not _BASE64.fullmatch(body):
            body = from_form(body, _FIELD)
        elif _BASE64.fullmatch(body):
            body = _from_base64(body)
        else:
            break
    return body


def _gunzipped(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        unpacked = stream.decompress(body, limit + 1)
    except zlib.error as error:
        message = "the body is no gzip that can be read"
        raise PayloadMalformed(message, path="body", hint="send it again, whole") from error
    if len(unpacked) > limit:
        raise PayloadTooLarge(f"the body unpacks to more than {limit} bytes", hint="send smaller batches")
    if not stream.eof or stream.unused_data:
        message = "the gzip of the body ends too early, or something stands behind it"
        raise PayloadMalformed(message, path="body", hint="send it again, whole")
    return unpacked


def _from_base64(body: bytes) -> bytes:
    # A plus that was not quoted in a form has become a space.
    text = body.replace(b" ", b"+").replace(b"-", b"+").replace(b"_", b"/").rstrip(b"=\r\n\t")
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        message = "the body is neither JSON nor base64 of JSON"
        raise PayloadMalformed(message, path="body", hint="send JSON, or gzip or base64 of it") from error


def decode(body: bytes) -> JsonValue:
    """Unpacked JSON as a value, every text in it storable. Raises PayloadMalformed, and PayloadTooLarge for what would
    take too long."""
    _check_cost(body)
    try:
        value = _ANY.decode(body)
    except msgspec.DecodeError as error:
        if len(body) > MOST_TOLERATED:
            message = f"the body is no strict JSON, which it must be at its size: {error}"
            raise PayloadMalformed(
                message, path="body", hint="send smaller batches, as a JSON encoder writes them"
            ) from error
        return tolerant(body)
    except RecursionError:
        raise too_nested(body) from None
    check_nesting(body)
    return storable(value) if b"\\u0000" in body else value


def _check_cost(body: bytes) -> None:
    """Whoever knows a public key can send: nothing is decoded that would hold up everybody else."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise PayloadTooLarge(f"the body holds more than {MOST_VALUES} values", hint="send smaller batches")
    if len(body) > MOST_DIGITS:
        long_numbers = body.translate(_AS_ZEROS).count(b"0" * _LONG_NUMBER)
        if long_numbers * _LONG_NUMBER > MOST_DIGITS:
            message = f"the body holds more than {MOST_DIGITS} digits in numbers of {_LONG_NUMBER} or more"
            raise PayloadTooLarge(message, hint="send long numbers as text that is not made of digits alone")
