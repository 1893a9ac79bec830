"""What may pass the proxy: requests of one model, that reach nobody but its provider."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from config.runner_settings import Api
from loops.agent.budget import tokens_of
from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.allowed import CHAT, COUNT, MESSAGES, RESPONSES, not_allowed

PATHS: Mapping[Api, Mapping[str, str]] = {
    "anthropic": {MESSAGES: "/v1/messages", COUNT: "/v1/messages/count_tokens"},
    "openai": {RESPONSES: "/responses", CHAT: "/chat/completions"},
}
"""For each API what may be asked for, and where that is below the address of the provider."""

_MOST_VALUES = 60_000
"""Of a body, by what parts them: what an agent writes must fill neither the memory of the service nor its time."""
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_PUT_ASIDE = 4_096
"""Tokens of an answer that are put aside: agents ask for far more than they use."""
_UNSAID = 32_000
"""Tokens that an answer may have whose request sets no limit."""
_MOST_TOKENS = 10_000_000
_LIMITS: Mapping[str, tuple[str, ...]] = {
    MESSAGES: ("max_tokens",),
    RESPONSES: ("max_output_tokens",),
    CHAT: ("max_tokens", "max_completion_tokens"),
}
_DATED = re.compile(r"-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHORT = re.compile(r"[a-z]+")
_VERSION = re.compile(r"-[0-9]{1,2}(-[0-9]{1,2})?(-[0-9]{8})?")


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a request may not pass."""

    reason: str
    status: int = 403


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may pass: `body` is what was understood of it, and all that is sent. `most` is put aside for it,
    nothing where it costs nothing; `whole` is what it costs where nobody can tell what came of it."""

    model: str
    most: Usage
    whole: Usage
    body: bytes = field(repr=False)


class _Refused(Exception):
    """Why a body is no request."""


def asked(path: str, body: bytes, model: str) -> Asked | Barred:
    """What a body asks for of `model`: an exact name, that may be followed by the day of its release, or a short one
    (`sonnet`) in whose place its agent puts the newest version."""
    if _is_large(body):
        return Barred("the body holds too many values", 413)
    try:
        request = json.loads(body, object_pairs_hook=_once)
        if not isinstance(request, dict):
            return Barred("the body is no JSON object", 400)
        return _asked(path, request, model)
    except RecursionError:
        return Barred("the body is nested too deep", 400)
    except _Refused as refused:
        return Barred(str(refused), 400)
    except ValueError:
        return Barred("the body is no JSON object", 400)


def _is_large(body: bytes) -> bool:
    if _values(body, 0, len(body)) <= _MOST_VALUES:
        return False
    # What parts values stands between the texts. A value has two of them at most, its key and itself.
    values = end = 0
    for number, text in enumerate(_TEXT.finditer(body)):
        values += _values(body, end, text.start())
        end = text.end()
        if values > _MOST_VALUES or number > 2 * _MOST_VALUES:
            return True
    return values + _values(body, end, len(body)) > _MOST_VALUES


def _values(body: bytes, start: int, end: int) -> int:
    return sum(body.count(one, start, end) for one in (b",", b"[", b"{"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once: of two, who reads it next might take the other one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Refused("a key stands twice in one object of the body")
    return found


def _asked(path: str, request: dict[str, Any], model: str) -> Asked | Barred:
    named = request.get("model")
    if not isinstance(named, str) or not _is_model(named, model):
        return Barred(f"this task works with {model}, not with {str(named)[:80]}")
    bad = next(not_allowed(path, request), None)
    if bad is not None:
        return Barred(f"{bad} may not pass: it is not known to keep what it is told between this task and its model")
    if path == CHAT and request.get("stream") is True:
        # Such a stream tells what it used only where it is asked.
        request["stream_options"] = {"include_usage": True}
    body = _written(request)
    if path == COUNT:
        return Asked(named, Usage(), Usage(), body)
    input_tokens, (put_aside, whole) = tokens_of(len(body)), _answer(path, request)
    most, worst = (Usage(input_tokens, output, estimated=True) for output in (put_aside, whole))
    return Asked(named, most, worst, body)


def _written(request: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # half of a character, where an agent cut a text
        return json.dumps(request, separators=(",", ":"), allow_nan=False).encode()


def _is_model(named: str, model: str) -> bool:
    if named == model:
        return True
    if _DATED.fullmatch(named.removeprefix(model)) and named.startswith(model):
        return True
    short = f"claude-{model}"
    is_short = _SHORT.fullmatch(model) is not None and named.startswith(short)
    return is_short and _VERSION.fullmatch(named.removeprefix(short)) is not None


def _answer(path: str, request: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens that are put aside for an answer, and how many it may have."""
    said = [found for key in _LIMITS[path] if (found := _number(request, key)) is not None]
    answers = _number(request, "n") or 1
    whole = max(said, default=_UNSAID)
    return min(whole, _PUT_ASIDE) * answers, whole * answers


def _number(request: Mapping[str, Any], key: str) -> int | None:
    given = request.get(key)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= _MOST_TOKENS:
        raise _Refused(f"{key} is no number of this kind")
    return given
