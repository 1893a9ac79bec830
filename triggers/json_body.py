"""Bodies as bytes to JSON values, for senders whose JSON a strict and fast parser sometimes refuses."""

import binascii
import json
import math
import re
from itertools import accumulate
from typing import NoReturn

import msgspec

from loops.errors import PayloadMalformed
from loops.event import JsonValue
from loops.storable import storable

NESTING_LIMIT = 200

_ANY: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_BUT_BRACKETS_AND_QUOTES = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_STEPS = [{"[": 1, "]": -1}.get(chr(byte), 0) for byte in range(256)]
# Between two parts other threads have their turn, which a single call of C over all would not give them.
_PART = 16 * 1024
_MARKS = re.compile(rb'(?:\\.){1,4096}|"|[{\[]{1,4096}|[}\]]{1,4096}', re.DOTALL)
# A text comes first, so that what stands inside of one is no constant.
_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*+"?|NaN|-?Infinity', re.DOTALL)
_ENCODER = "send what a JSON encoder writes, in UTF-8, and whole"


def from_form(body: bytes, field: str) -> bytes:
    """The value of one field of a form-encoded body."""
    name = field.encode() + b"="
    start = 0 if body.startswith(name) else body.find(b"&" + name) + 1
    if start or body.startswith(name):
        return _unquoted(body[start + len(name) :].partition(b"&")[0])
    hint = "send JSON, or a form with the JSON in that field"
    raise PayloadMalformed(f"the form has no field {field!r}", path=field, hint=hint)


def _unquoted(value: bytes) -> bytes:
    """Percent-decoded, as urllib would, but in C and 15 times as fast: with = for %, it is quoted-printable."""
    return binascii.a2b_qp(value.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"="))


def check_nesting(body: bytes) -> None:
    """Raises PayloadMalformed where valid JSON nests deeper than NESTING_LIMIT. Takes time by the body's length alone,
    whatever its shape."""
    # Counts what opens, by memchr, which bytes.count does not use: nearly every body ends here.
    opening = 2 * len(body) - len(body.replace(b"{", b"")) - len(body.replace(b"[", b""))
    if opening <= NESTING_LIMIT:
        return
    brackets, level = _structure(body), 0
    for start in range(0, len(brackets), _PART):
        part = brackets[start : start + _PART]
        opening = part.count(b"[")
        if level + opening > NESTING_LIMIT and _highest(part, level) > NESTING_LIMIT:
            raise too_nested(body)
        level += 2 * opening - len(part)


def _highest(brackets: bytes, level: int) -> int:
    return max(accumulate(map(_STEPS.__getitem__, brackets), initial=level))


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
    level, in_text = 0, False
    for found in _MARKS.finditer(body):
        mark, size = body[found.start()], found.end() - found.start()
        if mark == ord('"'):
            in_text = not in_text
        elif in_text:
            continue
        elif mark in b"[{":
            if level + size > NESTING_LIMIT:
                return found.start() + NESTING_LIMIT - level
            level += size
        elif mark in b"]}":
            level -= size
    return 0


def tolerant(body: bytes) -> JsonValue:
    """Decode what a strict parser refused: doubled keys, lone surrogates, bad UTF-8, huge numbers (kept as text).

    Every text in the result is storable. Raises PayloadMalformed for what is no JSON or nests too deep, and says where.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        value = _loads(text)
        check_nesting(body)
        return storable(value)
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
