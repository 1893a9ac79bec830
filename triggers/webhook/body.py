"""The body of a request as a value: JSON, a form, or text."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from loops.errors import PayloadMalformed
from loops.event import JsonValue
from loops.storable import storable, storable_text
from triggers.json_body import check_nesting, tolerant, too_nested

_ANY: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 1000
_BOM = b"\xef\xbb\xbf"


def read_body(body: bytes, content_type: str) -> JsonValue:
    """None where there is no body. What says that it is JSON has to be; what says nothing of the kind is JSON if it
    looks so, else text. Every text is storable. Raises PayloadMalformed."""
    kind = content_type.partition(";")[0].strip().lower()
    bare = body.removeprefix(_BOM).strip(b" \t\r\n")
    if not bare:
        return None
    if kind.startswith("multipart/"):
        message = "the header Content-Type says multipart, which is not read"
        raise PayloadMalformed(message, path="Content-Type", hint="send JSON, a form, or text")
    if kind == _FORM:
        return dict(fields(body.decode("utf-8", "replace"), "form"))
    if kind == "application/json" or kind.endswith("+json"):
        return _json(bare)
    if bare[:1] in {b"{", b"["}:
        try:
            return _json(bare)
        except PayloadMalformed:
            if kind != "application/octet-stream" and kind:
                return _text(body)
            raise
    return _text(body)


def fields(encoded: str, where: str) -> Mapping[str, JsonValue]:
    """The fields of a query or form: a text each, a list of texts where a name stands several times."""
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        message = f"the {where} has more than {_MOST_FIELDS} fields"
        raise PayloadMalformed(message, path=where, hint="send fewer") from error
    found: dict[str, list[JsonValue]] = {}
    for name, value in pairs:
        found.setdefault(storable_text(name), []).append(storable_text(value))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _json(body: bytes) -> JsonValue:
    try:
        value = _ANY.decode(body)
    except msgspec.DecodeError:
        return tolerant(body)
    except RecursionError:
        raise too_nested(body) from None
    check_nesting(body)
    return storable(value) if b"\\u0000" in body else value


def _text(body: bytes) -> str:
    return storable_text(body.removeprefix(_BOM).decode("utf-8", "replace"))
