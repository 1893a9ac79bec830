"""How far the work on one task may go."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from loops.agent.budget import Budget, Pricing, TaskBudget
from loops.agent.guards import Limits
from loops.agent.transcript import Transcript


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """How far an agent may go, and what a task may use and cost (USD); None for no limit. `shared` makes the budget
    that a task has together with others, in place of these two."""

    agent: Limits = field(default_factory=Limits)
    tokens: int | None = None
    cost: Decimal | None = None
    shared: Callable[[Pricing], Budget] | None = None

    def budget(self, pricing: Pricing, transcript: Transcript) -> Budget:
        """The budget of a task that has spent what its transcript tells."""
        if self.shared is not None:
            return self.shared(pricing)
        return TaskBudget(pricing, most_tokens=self.tokens, most_cost=self.cost, spent=transcript.usage)
