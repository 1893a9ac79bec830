"""The budgets of a task, its workflow and its project, held together in the database.

Before each request what it may use at most is put aside with the project held, and what it really used takes that
place afterwards: two tasks never see the same room.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from loops.agent.budget import NO_PRICE, Pricing, Refusal
from loops.agent.transcript import Usage
from loops.ports import Clock, Writer
from loops.store import projects, spendings
from loops.store import tasks as task_store
from loops.store.patience import persist
from loops.store.tasks import ClaimedTask
from loops.tasks.allowance import Level, Limits, overridden
from loops.tasks.quota import WINDOW

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from loops.store.spendings import Spent

_WHOSE: dict[Level, str] = {
    "task": "the task",
    "workflow": "the workflow's last 24 hours",
    "project": "the project's last 24 hours",
}


@dataclass(frozen=True, slots=True)
class StoredBudget:
    """Fills Budget for one task. `limits` are the installation's; the project may have others.

    A limit in money holds no model without a known price: where no limit in tokens stands beside it, it refuses
    everything. Better nothing than an unknown bill.
    """

    writer: Writer
    clock: Clock
    task: ClaimedTask
    limits: Limits
    pricing: Pricing

    async def reserve(self, key: str, most: Usage) -> Refusal | None:
        """See Budget."""
        cost = self.pricing(most)
        return await persist(self.writer, lambda connection: self._reserve(connection, key, most.total, cost))

    async def settle(self, key: str, used: Usage) -> None:
        """See Budget."""
        cost = self.pricing(used) if used.total else Decimal(0)
        await persist(self.writer, lambda connection: self._put(connection, key, used.total, cost, settled=True))

    def _reserve(self, connection: "Connection", key: str, tokens: int, cost: Decimal | None) -> Refusal | None:
        task_store.hold_project(connection, self.task.project_id)
        allowances = overridden(self.limits, projects.quotas(connection, self.task.project_id)).spending
        if cost is None and allowances.limits_cost and not allowances.limits_tokens:
            return Refusal(NO_PRICE)
        for level, allowance in allowances.levels():
            if allowance.tokens is None and allowance.cost is None:
                continue
            spent = self._spent(connection, level, key)
            if over := allowance.over(spent.tokens + tokens, spent.cost + (cost or 0)):
                return Refusal(f"the next request could bring {_WHOSE[level]} to {over}")
        self._put(connection, key, tokens, cost, settled=False)
        return None

    def _spent(self, connection: "Connection", level: Level, key: str) -> "Spent":
        if level == "task":
            return spendings.of_task(connection, self.task.id, but=key)
        owner = self.task.workflow_id if level == "workflow" else self.task.project_id
        since = self.clock.now() - WINDOW
        return spendings.since(connection, f"{level}_id", owner, since, but=(self.task.id, key))

    def _put(self, connection: "Connection", key: str, tokens: int, cost: Decimal | None, *, settled: bool) -> None:
        spendings.put(
            connection,
            task_id=self.task.id,
            key=key,
            project_id=self.task.project_id,
            workflow_id=self.task.workflow_id,
            tokens=tokens,
            cost=cost,
            settled=settled,
            now=self.clock.now(),
        )
