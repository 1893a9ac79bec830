"""The Model port: one request, one reply. Who answers is the business of models/."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from loops.agent.transcript import Message, Reply
from loops.errors import ExternalError

FaultKind = Literal[
    "auth", "quota", "rate_limit", "overloaded", "server", "network", "context_overflow", "refused", "filtered"
]
RETRIED: frozenset[FaultKind] = frozenset({"rate_limit", "overloaded", "server", "network"})
"""What another try may mend. An exhausted quota answers 429 too, and is never tried again."""


class ModelError(ExternalError):
    """A model did not answer. `kind` says what another try would come to, `retry_after` is in seconds."""

    code = "model.error"

    def __init__(
        self,
        service: str,
        kind: FaultKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(service, message, status=status, retry_after=retry_after)
        self.kind: FaultKind = kind


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool: `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How to answer. `force` names the tool that has to be called; `cache_key` keeps requests of one task together."""

    max_tokens: int = 8_192
    temperature: float | None = None
    effort: str | None = None
    force: str | None = None
    cache_key: str | None = None


class Model(Protocol):
    """Something that answers."""

    @property
    def name(self) -> str:
        """What the trace calls it: `provider:model`, or `scripted`."""

    async def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        settings: ModelSettings,
        on_text: Callable[[str], None],
    ) -> Reply:
        """One reply; `on_text` is handed its text piece by piece as it comes.

        Raises ModelError, also where a reply ends early. Does not retry by itself. A cancelled request is closed
        towards the server.
        """
