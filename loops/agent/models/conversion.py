"""Between our conversation and pydantic-ai's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from loops.agent.budget import tokens_of
from loops.agent.transcript import Assistant, Call, Finish, Message, Reply, System, ToolReturn, Usage, User
from loops.event import JsonValue

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "filtered",
    "tool_call": "tool_calls",
    "error": "error",
}


def foreign_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """The conversation in pydantic-ai's form."""
    history: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        if not isinstance(message, Assistant):
            parts.append(_request_part(message))
            continue
        response = _response(message)
        if response is None:
            continue
        if parts:
            history.append(ModelRequest(parts=parts))
            parts = []
        history.append(response)
    if parts:
        history.append(ModelRequest(parts=parts))
    return history


def _request_part(message: System | User | ToolReturn) -> ModelRequestPart:
    match message:
        case System(text):
            return SystemPromptPart(text)
        case User(text):
            return UserPromptPart(text)
        case ToolReturn(call_id, name, text):
            return ToolReturnPart(tool_name=name, content=text, tool_call_id=call_id)


def _response(message: Assistant) -> ModelResponse | None:
    """The answer; None where it has nothing that a provider takes back. Providers refuse blank text."""
    if message.native is not None:
        return _native(message)
    parts: list[ModelResponsePart] = [TextPart(message.text)] if message.text.strip() else []
    parts += [_call_part(call) for call in message.calls]
    return ModelResponse(parts=parts) if parts else None


def _native(message: Assistant) -> ModelResponse:
    """What the provider once sent, with the calls as this conversation names them."""
    (loaded,) = ModelMessagesTypeAdapter.validate_python([message.native])
    response = cast("ModelResponse", loaded)
    calls = iter(message.calls)
    parts = [_call_part(next(calls)) if isinstance(part, ToolCallPart) else part for part in response.parts]
    return replace(response, parts=parts)


def _call_part(call: Call) -> ToolCallPart:
    return ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)


def own_reply(response: ModelResponse) -> Reply:
    """The answer in our form. Its own is kept where it holds more than text and calls, such as signed thoughts."""
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart)]
    calls = tuple(
        Call(part.tool_call_id, part.tool_name, _arguments(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    plain = all(isinstance(part, TextPart | ToolCallPart) for part in response.parts)
    return Reply(
        text="".join(texts),
        calls=calls,
        usage=_usage(response, texts, calls),
        finish=_FINISHES.get(response.finish_reason or "stop", "stop"),
        thought="\n\n".join(thought for thought in thoughts if thought),
        native=None if plain else _dumped(response),
    )


def _arguments(given: str | Mapping[str, Any] | None) -> str:
    """As the model wrote them, also where that is no JSON: what to make of it is for the loop to say."""
    if isinstance(given, str):
        return given
    return "" if given is None else json.dumps(given, ensure_ascii=False)


def _dumped(response: ModelResponse) -> JsonValue:
    (dumped,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return cast("JsonValue", dumped)


def _usage(response: ModelResponse, texts: Sequence[str], calls: Sequence[Call]) -> Usage:
    used = response.usage
    if used.input_tokens or used.output_tokens:
        return Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
    written = sum(map(len, texts)) + sum(len(call.arguments) for call in calls)
    return Usage(0, tokens_of(written), estimated=True)
