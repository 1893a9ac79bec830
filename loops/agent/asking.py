"""One answer from a model: tried again where that may help, never beyond the time that is left."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from loops.agent.journal import Observer
from loops.agent.model import RETRIED, Model, ModelError, ModelSettings, ToolSpec
from loops.agent.transcript import Message, Reply

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 20.0

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class Asked:
    """How a request went so far: how often it was made, and the text that came."""

    requests: int = 0
    text: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often to try. `jitter` gives numbers from 0 to 1."""

    requests: int = 5
    sleep: Sleep = asyncio.sleep
    jitter: Callable[[], float] = random.random

    async def ask(
        self,
        model: Model,
        request: tuple[Sequence[Message], Sequence[ToolSpec], ModelSettings],
        seconds: float,
        number: int,
        observer: Observer,
        asked: Asked,
    ) -> Reply:
        """The reply. Raises ModelError when no further try may help, or when the wait for it would take too long."""
        deadline = monotonic() + seconds

        def said(text: str) -> None:
            asked.text.append(text)
            observer.said(number, text)

        while True:
            asked.requests += 1
            asked.text.clear()
            observer.asked(number)
            try:
                return await model.request(*request, said)
            except ModelError as error:
                wait = self._wait(error, asked.requests, deadline - monotonic())
                observer.retrying(number, error.message, wait)
            await self.sleep(wait)

    def _wait(self, error: ModelError, tried: int, left: float) -> float:
        if error.kind not in RETRIED or tried >= self.requests:
            raise error
        backoff = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (tried - 1)) * (0.5 + self.jitter() / 2)
        wait = backoff if error.retry_after is None else error.retry_after
        if wait >= left:
            words = f"{error.message}; another try would be in {wait:.0f} s, and {max(0.0, left):.0f} s are left"
            raise ModelError(
                error.service,
                error.kind,
                words.removeprefix(f"{error.service}: "),
                status=error.status,
                retry_after=error.retry_after,
            ) from error
        return wait
