"""Servers on loopback that speak OpenAI's chat completions and responses and Anthropic's messages, streaming, and note
what came."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

Protocol = Literal["openai", "anthropic"]
Wire = Literal["openai", "anthropic", "responses"]
PATHS: Mapping[Wire, str] = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `arguments` are sent as they are, in two pieces. `status` other than 200 fails with `body`.

    `hangs` stops after the text until the client goes, `waits` before it begins; `breaks_off` ends the stream without
    saying why, `drops` does so by losing the connection. `fails` is an error that comes inside the stream, in place of
    its end.
    """

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    thought: str = ""
    cut: bool = False
    input: int = 100
    output: int = 20
    cached: int = 0
    status: int = 200
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    breaks_off: bool = False
    drops: bool = False
    waits: bool = False
    fails: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_end(self) -> bool:
        """Whether what belongs behind the text is sent."""
        return not (self.hangs or self.breaks_off or self.drops or self.fails)


class ModelServer:
    """Gives its answers in turn, the last one for ever."""

    def __init__(self, protocol: Wire, answers: Sequence[Answer]) -> None:
        self.protocol = protocol
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.begun = asyncio.Event()
        self.left = asyncio.Event()
        self.base_url = ""

    def app(self) -> web.Application:
        """The application; the test server cancels a handler when its client goes."""
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post(PATHS[self.protocol], self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.headers.append(request.headers)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if answer.status != 200:
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            if answer.waits:
                self.begun.set()
                await asyncio.sleep(60)
            await response.prepare(request)
            for line in stream_of(self.protocol, answer):
                await response.write(line)
            self.begun.set()
            if answer.drops and request.transport is not None:
                request.transport.abort()
                return response
            if answer.hangs:
                await asyncio.sleep(60)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        await response.write_eof()
        return response


@asynccontextmanager
async def serving(protocol: Wire, *answers: Answer) -> AsyncIterator[ModelServer]:
    """The server, reachable at its `base_url`."""
    double = ModelServer(protocol, answers)
    server = TestServer(double.app())
    await server.start_server()
    address = str(server.make_url("/")).rstrip("/")
    double.base_url = address if protocol == "anthropic" else f"{address}/v1"
    try:
        yield double
    finally:
        await server.close()


def stream_of(protocol: Wire, answer: Answer) -> list[bytes]:
    """What is sent of an answer, piece by piece."""
    speak = {"openai": _openai, "anthropic": _anthropic, "responses": _responses}[protocol]
    return speak(answer)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _openai(answer: Answer) -> list[bytes]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": piece}) for piece in _halves(answer.text)]
    if not answer.has_end:
        return [_event(one) for one in [*chunks, *([answer.fails] if answer.fails else [])]]
    for index, (name, arguments) in enumerate(answer.calls):
        opening = {"index": index, "id": f"call_{index}", "type": "function"}
        chunks.append(chunk({"tool_calls": [{**opening, "function": {"name": name, "arguments": ""}}]}))
        for piece in _halves(arguments):
            chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    chunks.append(chunk({}, "length" if answer.cut else "tool_calls" if answer.calls else "stop"))
    usage = {
        "prompt_tokens": answer.input,
        "completion_tokens": answer.output,
        "total_tokens": answer.input + answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
    }
    chunks.append({**chunk({}), "choices": [], "usage": usage})
    return [*(_event(one) for one in chunks), b"data: [DONE]\n\n"]


def _anthropic(answer: Answer) -> list[bytes]:
    usage = {
        "input_tokens": answer.input - answer.cached,
        "output_tokens": 1,
        "cache_read_input_tokens": answer.cached,
        "cache_creation_input_tokens": 0,
    }
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.thought:
        signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
        thinking = {"type": "thinking_delta", "thinking": answer.thought}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [thinking, signed]))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _halves(answer.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    if answer.has_end:
        for index, (name, arguments) in enumerate(answer.calls):
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _halves(arguments)]
            blocks.append(({"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        if answer.has_end:
            events.append({"type": "content_block_stop", "index": index})
    if answer.has_end:
        stop = "max_tokens" if answer.cut else "tool_use" if answer.calls else "end_turn"
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.output}})
        events.append({"type": "message_stop"})
    events += [dict(answer.fails)] if answer.fails else []
    return [_event(one, one["type"]) for one in events]


def _responses(answer: Answer) -> list[bytes]:
    """Codex reads whole items and the end; of a text nothing is sent in pieces."""
    items: list[dict[str, Any]] = []
    if answer.text:
        content = [{"type": "output_text", "text": answer.text}]
        items.append({"type": "message", "role": "assistant", "id": "m1", "content": content})
    if answer.has_end:
        for index, (name, arguments) in enumerate(answer.calls):
            call = {"type": "function_call", "id": f"fc{index}", "call_id": f"call_{index}_{name}_{len(arguments)}"}
            items.append({**call, "name": name, "arguments": arguments})
    usage = {
        "input_tokens": answer.input,
        "input_tokens_details": {"cached_tokens": answer.cached},
        "output_tokens": answer.output,
        "total_tokens": answer.input + answer.output,
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r1"}}]
    events += [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    if answer.has_end:
        events.append({"type": "response.completed", "response": {"id": "r1", "usage": usage}})
    events += [dict(answer.fails)] if answer.fails else []
    return [_event(one, one["type"]) for one in events]


def _event(content: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(content)}\n\n".encode()
