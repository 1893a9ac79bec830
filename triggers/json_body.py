"""Bodies as bytes to JSON values, for senders whose JSON a strict and fast parser sometimes refuses."""

import binascii
import json
import math
import re
from typing import NoReturn

import msgspec

from loops.errors import PayloadMalformed
from loops.event import JsonValue
from loops.storable import storable

NESTING_LIMIT = 200

_ANY: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_BUT_BRACKETS_AND_QUOTES = bytes(byte for byte in range(256) if byte not in b'{}[]"')
# A text comes first, so that what stands inside of one is no bracket and no constant.
_TEXT = r'"(?:[^"\\]|\\.)*+"?'
_BRACKETS_IN_A_ROW = re.compile(_TEXT.encode() + rb"|[{\[]+|[}\]]+", re.DOTALL)
_CONSTANT = re.compile(_TEXT + "|NaN|-?Infinity", re.DOTALL)
_ENCODER = "send what a JSON encoder writes, in UTF-8, and whole"


def from_form(body: bytes, field: str) -> bytes:
    """The value of one field of a form-encoded body."""
    wanted = field.encode()
    for pair in body.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name == wanted:
            return _unquoted(value)
    hint = "send JSON, or a form with the JSON in that field"
    raise PayloadMalformed(f"the form has no field {field!r}", path=field, hint=hint)


def _unquoted(value: bytes) -> bytes:
    """Percent-decoded, as urllib would, but in C and 15 times as fast: with = for %, it is quoted-printable."""
    return binascii.a2b_qp(value.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"="))


def check_nesting(body: bytes) -> None:
    """Raises PayloadMalformed where valid JSON nests deeper than NESTING_LIMIT."""
    # Counts what opens, by memchr, which bytes.count does not use: nearly every body ends here.
    opening = 2 * len(body) - len(body.replace(b"{", b"")) - len(body.replace(b"[", b""))
    if opening <= NESTING_LIMIT:
        return
    brackets = _structure(body)
    for _ in range(NESTING_LIMIT):
        brackets = brackets.replace(b"[]", b"")  # takes away the innermost level
        if not brackets:
            return
    raise too_nested(body)


def _structure(body: bytes) -> bytes:
    """The brackets of valid JSON, all as [ and ], without those inside of strings."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = body.translate(_BRACKETS, _BUT_BRACKETS_AND_QUOTES)
    # Two quotes less change nothing about what stands inside of strings: most strings are gone here.
    return b"".join(marks.replace(b'""', b"").split(b'"')[::2])


def too_nested(body: bytes) -> PayloadMalformed:
    """The error for JSON that nests too deep, with the place where it does."""
    at = len(body[: _too_deep(body)].decode("utf-8", "replace"))
    message = f"the body nests deeper than {NESTING_LIMIT} levels, at character {at}"
    return PayloadMalformed(message, path="body", hint="send flatter JSON")


def _too_deep(body: bytes) -> int:
    """Where the first bracket stands that is one too many."""
    level = 0
    for found in _BRACKETS_IN_A_ROW.finditer(body):
        size = found.end() - found.start()
        if found[0][:1] in b"[{":
            if level + size > NESTING_LIMIT:
                return found.start() + NESTING_LIMIT - level
            level += size
        elif found[0][:1] in b"]}":
            level -= size
    return 0


def tolerant(body: bytes) -> JsonValue:
    """Decode what a strict parser refused: doubled keys, lone surrogates, bad UTF-8, huge numbers (kept as text).

    Every text in the result is storable. Raises PayloadMalformed for what is no JSON, and says where.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return storable(_loads(text))
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at").removesuffix(":")
        raise _no_json(f"{what} at line {error.lineno} column {error.colno}, character {error.pos}") from error
    except RecursionError:
        raise too_nested(body) from None


def tolerant_object(body: bytes) -> dict[str, JsonValue]:
    """As `tolerant`, for an object. Raises PayloadMalformed for what is none."""
    value = tolerant(body)
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", type(None): "null", bool: "a boolean"}.get(type(value), "a number")
        raise PayloadMalformed(f"the body must be a JSON object, got {kind}", path="body", hint="send an object: {…}")
    return value


def _no_json(what: str) -> PayloadMalformed:
    return PayloadMalformed(f"the body is no JSON: {what}", path="body", hint=_ENCODER)


def whole(body: bytes) -> JsonValue:
    """Everything in a body that was accepted before; every text in it is storable."""
    try:
        value = _ANY.decode(body)
    except msgspec.DecodeError:
        return tolerant_object(body)
    return storable(value) if b"\\u0000" in body else value


def _loads(text: str) -> JsonValue:
    def constant(name: str) -> NoReturn:
        places = (found.start() for found in _CONSTANT.finditer(text) if found[0][0] != '"')
        raise json.JSONDecodeError(f"{name} is no JSON value", text, next(places, 0))

    value: JsonValue = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=constant)
    return value


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # longer than Python converts
        return digits


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text
