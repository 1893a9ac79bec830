"""Real providers through pydantic-ai's direct requests. Importing this takes seconds: see opening.py."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import httpx2
from pydantic_ai import exceptions as foreign
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model as ForeignModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as ForeignSettings
from pydantic_ai.settings import ThinkingEffort
from pydantic_ai.tools import ToolDefinition

from loops.agent.budget import estimate
from loops.agent.model import FaultKind, Model, ModelError, ModelSettings, ToolSpec
from loops.agent.models.conversion import foreign_messages, own_reply
from loops.agent.models.opening import ModelAccess
from loops.agent.models.words import detail_of, fault_words
from loops.agent.transcript import Message, Reply, Usage

_TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
_LONGEST_MESSAGE = 500
# What the libraries raise for an answer of another shape than its protocol has.
_MISREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_OVERFLOW = re.compile(r"context.{0,12}(length|window|size)|prompt is too long|too many tokens", re.IGNORECASE)

# The first that fits: pydantic-ai's classes overlap, since one error is both its category and its HTTP status.
_KINDS: tuple[tuple[type[Exception], FaultKind], ...] = (
    (foreign.ModelContextWindowExceededError, "context_overflow"),
    (foreign.ModelAuthenticationError, "auth"),
    (foreign.ModelQuotaExceededError, "quota"),
    (foreign.ModelRateLimitError, "rate_limit"),
    (foreign.ModelUnavailableError, "overloaded"),
    (foreign.ModelServerError, "server"),
    (foreign.ModelConnectionError, "network"),
    (foreign.ModelRequestTimeout, "network"),
    (foreign.ModelRequestRejectedError, "refused"),
    (foreign.ContentFilterError, "filtered"),
)


@asynccontextmanager
async def connected(access: ModelAccess) -> AsyncIterator[Model]:
    """The model, with connections of its own that are closed in the end."""
    async with httpx2.AsyncClient(timeout=_TIMEOUT) as client:
        yield ProviderModel(access, _foreign_model(access, client))


def _foreign_model(access: ModelAccess, client: httpx2.AsyncClient) -> ForeignModel:
    key = access.api_key.reveal() if access.api_key is not None else "none"
    if access.speaks == "anthropic":
        anthropic = AnthropicProvider(api_key=key, base_url=access.base_url, http_client=client)
        return AnthropicModel(access.model, provider=anthropic)
    openai = OpenAIProvider(api_key=key, base_url=access.base_url, http_client=client)
    return OpenAIChatModel(access.model, provider=openai)


class ProviderModel:
    """One model of one provider."""

    def __init__(self, access: ModelAccess, model: ForeignModel) -> None:
        self._access = access
        self._model = model
        self.name = f"{access.provider}:{access.model}"

    async def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        settings: ModelSettings,
        on_text: Callable[[str], None],
    ) -> Reply:
        """See Model."""
        try:
            response = await self._streamed(messages, tools, settings, on_text)
        except foreign.ModelAPIError as error:
            raise self._told(error) from error
        except foreign.UnexpectedModelBehavior as error:
            raise self._told(error) from error
        except foreign.UserError as error:
            raise ModelError(self.name, "refused", str(error)[:_LONGEST_MESSAGE]) from error
        except _MISREAD as error:
            words = f"the answer could not be read: {type(error).__name__}: {error}"
            raise ModelError(self.name, "server", words[:_LONGEST_MESSAGE]) from error
        # pydantic-ai calls a stream that ends without saying why a complete answer.
        if not (response.provider_details or {}).get("finish_reason"):
            raise ModelError(self.name, "network", "the answer ended before it was complete")
        reply = own_reply(response)
        return reply if reply.usage.input else _with_estimate(reply, estimate(messages, tools, reply.usage.output))

    async def _streamed(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        settings: ModelSettings,
        on_text: Callable[[str], None],
    ) -> ModelResponse:
        parameters = ModelRequestParameters(function_tools=[_definition(tool) for tool in tools])
        async with model_request_stream(
            self._model,
            foreign_messages(messages),
            model_settings=self._settings(settings),
            model_request_parameters=parameters,
        ) as stream:
            await _read(stream, on_text)
            return stream.get()

    def _settings(self, settings: ModelSettings) -> ForeignSettings:
        given: ForeignSettings = {"max_tokens": settings.max_tokens, "max_retries": 0}
        if settings.temperature is not None:
            given["temperature"] = settings.temperature
        if settings.force is not None:
            given["tool_choice"] = [settings.force]
        elif settings.effort is not None:
            # Anthropic refuses a forced tool while it thinks.
            given["thinking"] = _effort(settings.effort)
        if self._access.speaks == "anthropic":
            cached: AnthropicModelSettings = {
                "anthropic_cache_tool_definitions": True,
                "anthropic_cache_instructions": True,
                "anthropic_cache_messages": True,
            }
            return cast("ForeignSettings", {**given, **cached})
        if settings.cache_key is not None and self._access.base_url is None:
            keyed: OpenAIChatModelSettings = {"openai_prompt_cache_key": settings.cache_key}
            return cast("ForeignSettings", {**given, **keyed})
        return given

    def _told(self, error: foreign.ModelAPIError | foreign.UnexpectedModelBehavior) -> ModelError:
        status = error.status_code if isinstance(error, foreign.ModelHTTPError) else None
        retry_after = error.retry_after if isinstance(error, foreign.ModelAPIError) else None
        kind = _kind(error, status)
        detail = detail_of(error.body if isinstance(error, foreign.ModelAPIError) else None, str(error))
        words = fault_words(kind, detail, status, self._access.base_url)
        return ModelError(self.name, kind, words, status=status, retry_after=retry_after)


def _kind(error: Exception, status: int | None) -> FaultKind:
    if status in (400, 413, 422) and _OVERFLOW.search(str(error)):
        return "context_overflow"
    for category, kind in _KINDS:
        if isinstance(error, category):
            return kind
    return "refused" if status is not None and 400 <= status < 500 else "server"


def _effort(given: str) -> ThinkingEffort:
    efforts: dict[str, ThinkingEffort] = {
        "minimal": "minimal",
        "low": "low",
        "medium": "medium",
        "high": "high",
        "xhigh": "xhigh",
        "max": "max",
    }
    return efforts.get(given, "medium")


def _definition(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters), strict=False
    )


async def _read(stream: StreamedResponse, on_text: Callable[[str], None]) -> None:
    async for event in stream:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if text:
                    on_text(text)


def _with_estimate(reply: Reply, usage: Usage) -> Reply:
    return Reply(reply.text, reply.calls, usage, reply.finish, reply.thought, reply.native)
