"""How bodies are unpacked, and what is refused before it takes room or time."""

import base64
import gzip
import json
import tracemalloc
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import DeliveryError, PayloadMalformed, PayloadTooLarge
from triggers.posthog.body import LIMIT, MOST_DIGITS, MOST_TOLERATED, MOST_VALUES, decode, unpack

VALUE = {"api_key": "phc_1", "batch": [{"event": "a b+c", "properties": {"text": "für ☃"}}]}
JSON = json.dumps(VALUE).encode()


def form(value: bytes) -> bytes:
    return b"data=" + urllib.parse.quote_from_bytes(value, safe="").encode()


WAYS = {
    "as it is": JSON,
    "with a byte order mark and spaces": b"\xef\xbb\xbf \n" + JSON + b"\r\n",
    "gzip without a header": gzip.compress(JSON),
    "base64": base64.b64encode(JSON),
    "base64 for addresses": base64.urlsafe_b64encode(JSON).rstrip(b"="),
    "base64 of gzip": base64.b64encode(gzip.compress(JSON)),
    "a form": form(JSON),
    "a form of base64": form(base64.b64encode(JSON)),
    "a form of base64 whose plus became a space": b"data=" + base64.b64encode(JSON).replace(b"+", b" "),
    "a form with more fields": b"ver=1&" + form(base64.b64encode(gzip.compress(JSON))) + b"&ip=1",
}


@pytest.mark.parametrize("body", WAYS.values(), ids=WAYS)
def test_a_body_is_the_same_however_it_is_packed(body: bytes) -> None:
    assert decode(unpack(body)) == VALUE


def test_gzip_that_happens_to_end_in_white_space_is_read_whole() -> None:
    for number in range(3000):
        body = gzip.compress(json.dumps({"n": number}).encode(), mtime=0)
        assert decode(unpack(body)) == {"n": number}


def test_a_bomb_is_refused_as_soon_as_it_passes_the_limit() -> None:
    bomb = gzip.compress(b"[" + b" " * (50 * 1024 * 1024) + b"]", 9)
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            unpack(bomb, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    assert len(unpack(gzip.compress(b"[" + b" " * 10 + b"]"), 12)) == 12


@pytest.mark.parametrize("layers", [2, 3, 6])
def test_a_bomb_in_layers_is_refused_or_comes_to_nothing(layers: int) -> None:
    body = b"0" * (LIMIT + 2)
    for _ in range(layers):
        body = gzip.compress(body)
    with pytest.raises(DeliveryError):
        decode(unpack(body))


def test_a_list_of_millions_of_nothings_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(PayloadTooLarge, match="values"):
        decode(b"[" + b"[]," * (MOST_VALUES + 1) + b"[]]")


@pytest.mark.parametrize(
    "value",
    [b"[" * 190 + b"]" * 190, b'{"a":{"a":{}}}', b'{"a":1,"b":2}', b"[[],[]]"],
    ids=repr,
)
def test_values_are_counted_however_they_lie_in_one_another(value: bytes) -> None:
    with pytest.raises(PayloadTooLarge, match="values"):
        decode(b"[" + b",".join([value] * (MOST_VALUES // 2)) + b"]")


def test_numbers_without_end_are_refused_before_they_are_decoded_and_a_few_are_read() -> None:
    number = b"7" * 4000
    with pytest.raises(PayloadTooLarge, match="digits"):
        decode(b"[" + b",".join([number] * (MOST_DIGITS // 1000)) + b"]")
    assert decode(b"[" + number + b', "' + b"a" * MOST_DIGITS + b'"]') == [int(number), "a" * MOST_DIGITS]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"data=",
        b"other=1",
        b"AAAA",
        b"null=",
        gzip.compress(JSON, mtime=0)[:-4],
        gzip.compress(JSON, mtime=0) + b"rest",
        gzip.compress(JSON, mtime=0)[:20] + b"\0" * 30,
        zlib.compress(JSON),
        b"A" * 5 + b" " * 200_000 + b"!",
        b'{"a":' + b"[" * 400 + b"]" * 400 + b"}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_body_of_posthogs_is_a_typed_refusal(body: bytes) -> None:
    with pytest.raises(PayloadMalformed):
        decode(unpack(body))


def test_odd_json_is_read_up_to_a_size() -> None:
    odd = rb'{"a": "\ud800", "b": "\u0000"}'
    assert decode(odd) == {"a": "\N{REPLACEMENT CHARACTER}", "b": "\N{REPLACEMENT CHARACTER}"}
    assert decode(b'[{"a": "\xff"}]') == [{"a": "\N{REPLACEMENT CHARACTER}"}]
    with pytest.raises(PayloadMalformed, match="at its size"):
        decode(odd[:-1] + b" " * MOST_TOLERATED + b"}")


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    for one in (body, gzip.compress(body), base64.b64encode(body), b"data=" + body, b"{" + body):
        try:
            decode(unpack(one))
        except DeliveryError:
            continue
