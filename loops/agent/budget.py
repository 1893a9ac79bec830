"""What a task may spend: reserved before each request, settled after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, TypeAlias

from loops.agent.model import ToolSpec
from loops.agent.transcript import Assistant, Message, Usage

_CHARACTERS_A_TOKEN = 3.5
_TOKENS_A_MESSAGE = 8

NO_PRICE = "there is a limit in money, and no known price for this model; set a price"

Pricing: TypeAlias = Callable[[Usage], Decimal | None]
"""What a usage costs in USD; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing more may be spent."""

    reason: str


class Budget(Protocol):
    """Counts what a task spends, also against limits that it shares with others."""

    async def reserve(self, key: str, most: Usage) -> Refusal | None:
        """Put aside what a request may use at most; the same key again replaces what was put aside."""

    async def settle(self, key: str, used: Usage) -> None:
        """What it really used, in place of what was put aside. Safe to repeat."""


class TaskBudget:
    """The limits of one task alone, counted in memory; `spent` is what was used before a restart.

    A limit in money without a known price refuses everything, unless one in tokens stands beside it: better nothing
    than an unknown bill.
    """

    def __init__(
        self,
        pricing: Pricing,
        *,
        most_tokens: int | None = None,
        most_cost: Decimal | None = None,
        spent: Usage | None = None,
    ) -> None:
        self._pricing = pricing
        self._most_tokens = most_tokens
        self._most_cost = most_cost
        self._used: dict[str, Usage] = {"": spent or Usage()}

    async def reserve(self, key: str, most: Usage) -> Refusal | None:
        """See Budget."""
        refusal = self._refusal([*(used for name, used in self._used.items() if name != key), most])
        if refusal is None:
            self._used[key] = most
        return refusal

    async def settle(self, key: str, used: Usage) -> None:
        """See Budget."""
        self._used[key] = used

    def _refusal(self, uses: Sequence[Usage]) -> Refusal | None:
        tokens = sum(used.total for used in uses)
        if self._most_tokens is not None and tokens > self._most_tokens:
            return Refusal(f"the next request could bring the task to {tokens} tokens, {self._most_tokens} at most")
        if self._most_cost is None:
            return None
        costs = [self._pricing(used) for used in uses if used.total]
        if None in costs:
            return None if self._most_tokens is not None else Refusal(NO_PRICE)
        cost = sum((cost for cost in costs if cost is not None), Decimal(0))
        if cost > self._most_cost:
            return Refusal(f"the next request could bring the task to ${cost:.4f}, ${self._most_cost} at most")
        return None


def estimate(messages: Sequence[Message], tools: Sequence[ToolSpec], output: int) -> Usage:
    """About what a request uses when its answer is as long as it may be."""
    characters = sum(_size(message) for message in messages)
    characters += sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in tools)
    return Usage(tokens_of(characters) + _TOKENS_A_MESSAGE * len(messages), output, estimated=True)


def tokens_of(characters: int) -> int:
    """About how many tokens a text of that length has."""
    return int(characters / _CHARACTERS_A_TOKEN) + 1


def _size(message: Message) -> int:
    calls = message.calls if isinstance(message, Assistant) else ()
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in calls)
