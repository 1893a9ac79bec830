"""How far the work on one task may go."""

from dataclasses import dataclass, field
from decimal import Decimal

from loops.agent.budget import Pricing, TaskBudget
from loops.agent.guards import Limits
from loops.agent.transcript import Transcript


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """How far an agent may go, and what a task may use and cost (USD); None for no limit."""

    agent: Limits = field(default_factory=Limits)
    tokens: int | None = None
    cost: Decimal | None = None

    def budget(self, pricing: Pricing, transcript: Transcript) -> TaskBudget:
        """The budget of a task that has spent what its transcript tells."""
        return TaskBudget(pricing, most_tokens=self.tokens, most_cost=self.cost, spent=transcript.usage)
