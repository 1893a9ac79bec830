"""A message held against the protocol's form before the library reads it: its words quote what was sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
"""Codes of JSON-RPC."""

_KINDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "a text",
    type(None): "null",
}
_MESSAGE = 'send one object a request: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
_CALL = 'as in {"name": "workflows-list", "arguments": {}}'


@dataclass(frozen=True, slots=True)
class Misread:
    """Why a message cannot be taken. `id` is the message's, null where it has none that counts."""

    code: int
    message: str
    hint: str
    id: str | int | None = None


def misread(body: bytes) -> Misread | None:
    """What is wrong with the form of a message; None where nothing is."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return Misread(PARSE_ERROR, "the body is no JSON", _MESSAGE)
    if not isinstance(told, dict):
        return Misread(INVALID_REQUEST, f"a message is an object, not {_kind(told)}", _MESSAGE)
    number = told.get("id")
    if "id" in told and (isinstance(number, bool) or not isinstance(number, str | int)):
        return Misread(INVALID_REQUEST, f"id is a text or a whole number, not {_kind(number)}", _MESSAGE)
    if told.get("jsonrpc") != "2.0":
        return Misread(INVALID_REQUEST, 'jsonrpc is "2.0" in every message', _MESSAGE, number)
    if "method" not in told and ("result" in told or "error" in told):
        return None  # an answer
    if not isinstance(told.get("method"), str):
        return Misread(INVALID_REQUEST, f"method is a text, not {_kind(told.get('method'))}", _MESSAGE, number)
    return _of_params(told, number)


def _of_params(told: Mapping[str, Any], number: str | int | None) -> Misread | None:
    params, calls = told.get("params"), told["method"] == "tools/call"
    if not isinstance(params, dict) and (calls or "params" in told):
        return Misread(INVALID_PARAMS, f"params is an object, not {_kind(params)}", _CALL if calls else "", number)
    if not calls or params is None:
        return None
    if not isinstance(params.get("name"), str):
        return Misread(
            INVALID_PARAMS, f"name is the name of a tool, a text, not {_kind(params.get('name'))}", _CALL, number
        )
    if not isinstance(params.get("arguments"), dict | None):
        return Misread(INVALID_PARAMS, f"arguments is an object, not {_kind(params['arguments'])}", _CALL, number)
    return None


def _kind(told: object) -> str:
    return _KINDS.get(type(told), "that")
