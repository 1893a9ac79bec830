"""Messages that are not in the protocol's form are told so in words that quote nothing of them."""

import json
from typing import Any

import pytest

from server.mcp.message import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, misread

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}


@pytest.mark.parametrize(
    ("told", "code", "words", "number"),
    [
        ([1], INVALID_REQUEST, "a message is an object, not a list", None),
        ("x", INVALID_REQUEST, "a message is an object, not a text", None),
        ({**CALL, "id": None}, INVALID_REQUEST, "id is a text or a whole number, not null", None),
        ({**CALL, "id": True}, INVALID_REQUEST, "id is a text or a whole number, not true or false", None),
        ({**CALL, "jsonrpc": "1.0"}, INVALID_REQUEST, 'jsonrpc is "2.0" in every message', 7),
        ({**CALL, "method": 7}, INVALID_REQUEST, "method is a text, not a number", 7),
        ({**CALL}, INVALID_PARAMS, "params is an object, not null", 7),
        ({**CALL, "params": "x"}, INVALID_PARAMS, "params is an object, not a text", 7),
        ({**CALL, "method": "tools/list", "params": [1]}, INVALID_PARAMS, "params is an object, not a list", 7),
        ({**CALL, "params": {}}, INVALID_PARAMS, "name is the name of a tool, a text, not null", 7),
        ({**CALL, "params": {"name": "a", "arguments": "x"}}, INVALID_PARAMS, "arguments is an object, not a text", 7),
    ],
)
def test_what_is_wrong_is_told_with_its_kind(told: Any, code: int, words: str, number: int | None) -> None:
    found = misread(json.dumps(told).encode())
    assert found is not None
    assert (found.code, found.message, found.id) == (code, words, number)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5_000])
def test_what_is_no_json_is_told_so(body: bytes) -> None:
    found = misread(body)
    assert found is not None
    assert (found.code, found.message) == (PARSE_ERROR, "the body is no JSON")


@pytest.mark.parametrize(
    "told",
    [
        {**CALL, "method": "tools/list"},
        {**CALL, "method": "tools/list", "params": {"cursor": "a"}},
        {**CALL, "params": {"name": "a"}},
        {**CALL, "params": {"name": "a", "arguments": {"b": [1]}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "a", "result": {}},
    ],
)
def test_what_is_in_form_is_left_to_the_protocol(told: Any) -> None:
    assert misread(json.dumps(told).encode()) is None
