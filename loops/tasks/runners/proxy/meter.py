"""What one task uses of a model, counted where it passes, and held against the task's budget."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from loops.agent.budget import Budget, Pricing
from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.asked import Asked
from loops.tasks.runners.trace import Spent


class Meter:
    """Counts requests. `price_of` has the price of a model by its whole name; the budget is made for the first that is
    asked for, and another one is refused.

    `verdict` is set with the reason once nothing more can come of the task: `is_budget` where its budget is used up,
    else its provider refuses the key.
    """

    def __init__(self, price_of: Callable[[str], Pricing], budget_of: Callable[[Pricing], Budget]) -> None:
        self._price_of = price_of
        self._budget_of = budget_of
        self._model = ""
        self._pricing: Pricing = _unknown
        self._budget: Budget | None = None
        self._requests = 0
        self._usage = Usage()
        self._cost: Decimal | None = Decimal(0)
        self.verdict: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_budget = False

    @property
    def spent(self) -> Spent:
        """All that was used up to now."""
        return Spent(self._usage, self._cost, self._requests)

    async def reserve(self, one: Asked) -> str:
        """A key for what is used; empty where nothing more may be."""
        if self._budget is None:
            self._model, self._pricing = one.model, self._price_of(one.model)
            self._budget = self._budget_of(self._pricing)
        if one.model != self._model:
            return ""
        self._requests += 1
        # A number of its own, also of requests that pass at once.
        key = f"proxy:{self._requests}"
        refusal = await self._budget.reserve(key, one.most)
        if refusal is not None:
            self.is_budget = True
            self.give_up(refusal.reason)
            return ""
        return key

    async def settle(self, key: str, used: Usage) -> None:
        """What a request really used."""
        self._usage += used
        cost = self._pricing(used)
        self._cost = None if self._cost is None or cost is None else self._cost + cost
        if self._budget is not None:
            await self._budget.settle(key, used)

    def give_up(self, reason: str) -> None:
        """Say that nothing more can come of this task."""
        if not self.verdict.done():
            self.verdict.set_result(reason)


def _unknown(_usage: Usage) -> Decimal | None:
    return None
