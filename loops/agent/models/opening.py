"""Which model answers, and how it is reached; what speaks to providers is loaded when the first one is needed."""

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from config.secret_text import SecretText
from loops.agent.model import Model
from loops.errors import ConfigError, Fault
from loops.threads import on_own_thread

_ADAPTER = "loops.agent.models.adapter"


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A model of a provider. Any provider but `anthropic` and `openai` is one that speaks OpenAI's chat completions
    at `base_url`: OpenRouter, Google's compatible endpoint, Ollama, vLLM, llama.cpp."""

    provider: str
    model: str
    api_key: SecretText | None = field(default=None, repr=False)
    base_url: str | None = None

    @property
    def speaks(self) -> Literal["anthropic", "openai"]:
        """Which of the two protocols."""
        return "anthropic" if self.provider == "anthropic" else "openai"


def model_access(choice: str, api_key: SecretText | None, base_url: str | None = None) -> ModelAccess:
    """The access for `provider:model`. Raises ConfigError where it cannot work."""
    provider, colon, model = choice.partition(":")
    if not colon or not provider or not model:
        raise ConfigError([Fault("LOOPS_MODEL", f"{choice!r} names no model", "write provider:model")])
    if base_url is None and provider not in ("anthropic", "openai"):
        hint = "set the address of its OpenAI-compatible API, as http://127.0.0.1:11434/v1"
        raise ConfigError([Fault("LOOPS_MODEL_BASE_URL", f"where {provider!r} is reached is not known", hint)])
    if api_key is None and base_url is None:
        raise ConfigError([Fault("LOOPS_MODEL_API_KEY", f"is not set, and {provider} needs a key", "set it")])
    return ModelAccess(provider, model, api_key, base_url)


@asynccontextmanager
async def open_model(access: ModelAccess) -> AsyncIterator[Model]:
    """The model, to be used inside. The first call loads the provider libraries beside the event loop."""
    adapter = await on_own_thread(lambda: importlib.import_module(_ADAPTER))
    async with adapter.connected(access) as model:
        yield model
