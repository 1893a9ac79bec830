"""What may pass the proxy: requests of one model, that reach nobody but its provider."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.runner_settings import Api
from loops.agent.budget import tokens_of
from loops.agent.transcript import Usage

PATHS: Mapping[Api, Mapping[str, str]] = {
    "anthropic": {
        "/v1/messages": "/v1/messages",
        "/v1/messages/count_tokens": "/v1/messages/count_tokens",
    },
    "openai": {"/v1/responses": "/responses", "/v1/chat/completions": "/chat/completions"},
}
"""For each API what may be asked for, and where that is below the address of the provider."""
FREE = frozenset({"/v1/messages/count_tokens"})

_MOST_VALUES = 1_000_000
"""Of a body, by what parts them: what an agent writes must not fill the memory of the service."""
_DEEPEST = 30
_ANSWER = 4_096
"""Tokens of an answer that are put aside: agents ask for far more than they use."""
_HOSTED = (
    "web_search",
    "web_fetch",
    "code_execution",
    "code_interpreter",
    "file_search",
    "mcp",
    "computer_use_preview",
)
_ELSEWHERE = frozenset({"mcp_servers", "container", "background", "conversation", "prompt"})


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a request may not pass."""

    reason: str
    status: int = 403


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may pass, and what it may come to."""

    model: str
    most: Usage


_NO_OBJECT = Barred("the body is no JSON object", 400)


def asked(path: str, body: bytes, model: str) -> Asked | Barred:
    """What a body asks for of `model`, an exact name or a short one (`sonnet`) that is part of it."""
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        return Barred("the body holds too many values", 413)
    try:
        request = json.loads(body)
        return _asked(path, len(body), request, model) if isinstance(request, dict) else _NO_OBJECT
    except RecursionError:
        return Barred("the body is nested too deep", 400)
    except ValueError:
        return _NO_OBJECT


def _asked(path: str, size: int, request: Mapping[str, Any], model: str) -> Asked | Barred:
    named = request.get("model")
    if not isinstance(named, str) or model not in named:
        return Barred(f"this task works with {model}, not with {str(named)[:80]}")
    elsewhere = next(iter(_elsewhere(request)), None)
    if elsewhere is not None:
        return Barred(f"{elsewhere} would let the provider reach elsewhere, which tasks may not")
    if path in FREE:
        return Asked(named, Usage())
    return Asked(named, Usage(tokens_of(size), _answer(request), estimated=True))


def _answer(request: Mapping[str, Any]) -> int:
    given = [request.get(key) for key in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
    return min([_ANSWER, *(most for most in given if isinstance(most, int) and most > 0)])


def _elsewhere(request: Mapping[str, Any]) -> Iterator[str]:
    """What in a request makes its provider fetch, search, execute or call something, and so carry text out."""
    yield from (key for key in sorted(_ELSEWHERE) if request.get(key))
    for tool in _tools(request.get("tools")):
        kind = tool.get("type")
        if isinstance(kind, str) and kind.startswith(_HOSTED):
            yield f"the tool {kind[:40]}"
    yield from _addresses(request.get("messages"))
    yield from _addresses(request.get("input"))
    yield from _addresses(request.get("system"))


def _tools(tools: object) -> Iterator[Mapping[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            yield tool
            yield from _tools(tool.get("tools"))


def _addresses(content: object, depth: int = 0) -> Iterator[str]:
    """Blocks that name a file by its address. Texts and the arguments of calls are not looked into."""
    if depth > _DEEPEST:
        yield "what is nested so deep"
    elif isinstance(content, list):
        for item in content:
            yield from _addresses(item, depth + 1)
    elif isinstance(content, dict):
        for key in ("image_url", "file_url", "url"):
            value = content.get(key)
            if isinstance(value, str) and not value.startswith("data:"):
                yield f"a file by its address ({key})"
        for key in ("source", "image_url", "content", "output"):
            yield from _addresses(content.get(key), depth + 1)
