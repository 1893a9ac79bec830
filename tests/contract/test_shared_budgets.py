"""What tasks may spend together: exact whoever asks at once, on SQLite and on Postgres."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loops.agent.transcript import Usage
from loops.store import projects, spendings
from loops.store.database import Database
from loops.store.ids import new_id
from loops.store.spending_tables import spendings as table
from loops.store.tasks import ClaimedTask
from loops.tasks.allowance import Allowance, Allowances, Limits
from loops.tasks.spending import StoredBudget

PROJECT = "default"
NOW = datetime(2026, 7, 6, 12, tzinfo=UTC)


@dataclass
class At:
    moment: datetime = NOW

    def now(self) -> datetime:
        return self.moment


def cents(usage: Usage) -> Decimal | None:
    return Decimal(usage.total) / 100


def unpriced(_usage: Usage) -> None:
    return None


@dataclass
class Shop:
    """Budgets of tasks of one database, all with the same limits."""

    database: Database
    allowances: Allowances
    clock: At = field(default_factory=At)

    def budget(self, workflow: str = "flow", task: str = "", pricing=cents) -> StoredBudget:
        claimed = ClaimedTask(task or new_id(), PROJECT, workflow, "run", "task", "", {}, (), None, False)
        return StoredBudget(self.database.writer, self.clock, claimed, Limits(spending=self.allowances), pricing)

    async def spent(self) -> spendings.Spent:
        since = self.clock.now() - timedelta(hours=24)
        return await self.database.reader.read(lambda c: spendings.since(c, "project_id", PROJECT, since))


async def test_what_is_put_aside_and_what_was_used_take_the_same_room(database):
    shop = Shop(database, Allowances(workflow=Allowance(tokens=100)))
    first, second, other = shop.budget(), shop.budget(), shop.budget("other")
    assert await first.reserve("1", Usage(50, 20)) is None
    refused = await second.reserve("1", Usage(31, 0))
    assert refused is not None
    assert refused.reason == "the next request could bring the workflow's last 24 hours to 101 tokens, 100 at most"
    assert await other.reserve("1", Usage(100, 0)) is None
    assert await first.reserve("1", Usage(60, 20)) is None  # the same request, asked for again
    await first.settle("1", Usage(30, 5))
    assert await second.reserve("1", Usage(65, 0)) is None
    await second.settle("1", Usage(1, 0))
    await second.settle("1", Usage(1, 0))
    assert (await shop.spent()).tokens == 35 + 1 + 100
    shop.clock.moment += timedelta(hours=24)
    assert await first.reserve("2", Usage(100, 0)) is None


async def test_each_level_has_its_own_room_and_a_project_may_set_its_own(database):
    limits = Allowances(Allowance(tokens=50), Allowance(tokens=80), Allowance(cost=Decimal("0.9")))
    shop = Shop(database, limits)
    one = shop.budget()
    assert await one.reserve("1", Usage(40, 0)) is None
    shop.clock.moment += timedelta(days=3)
    told = await one.reserve("2", Usage(11, 0))
    assert told is not None
    assert told.reason == "the next request could bring the task to 51 tokens, 50 at most"
    assert await shop.budget().reserve("1", Usage(45, 0)) is None
    told = await shop.budget("other").reserve("1", Usage(46, 0))
    assert told is not None
    assert told.reason == "the next request could bring the project's last 24 hours to $0.9100, $0.9 at most"
    await database.writer.run(lambda c: projects.set_quotas(c, PROJECT, {"project_cost": "2", "task_tokens": 60}))
    assert await shop.budget("other").reserve("1", Usage(55, 0)) is None


async def test_money_without_a_price_is_refused_unless_tokens_are_limited(database):
    shop = Shop(database, Allowances(project=Allowance(cost=Decimal(5))))
    told = await shop.budget(pricing=unpriced).reserve("1", Usage(1, 0))
    assert told is not None
    assert "no known price" in told.reason
    shop.allowances = replace(shop.allowances, task=Allowance(tokens=10))
    assert await shop.budget(pricing=unpriced).reserve("1", Usage(10, 0)) is None
    assert (await shop.budget(pricing=unpriced).reserve("1", Usage(11, 0))) is not None
    assert (await shop.spent()).unpriced == 1


REQUESTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=14)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(requests=REQUESTS, workflow=st.integers(0, 120), project=st.integers(0, 200))
async def test_whoever_asks_at_once_no_budget_is_ever_overdrawn(database, requests, workflow, project):
    await database.writer.run(lambda connection: connection.execute(sa.delete(table)))
    shop = Shop(database, Allowances(workflow=Allowance(tokens=workflow), project=Allowance(tokens=project)))
    held: dict[str, int] = {"a": 0, "b": 0, "c": 0}
    most: dict[str, int] = dict(held)

    async def ask(flow: str, wanted: int, used: int) -> bool:
        budget = shop.budget(flow)
        if await budget.reserve("1", Usage(wanted, 0)) is not None:
            return False
        held[flow] += wanted
        most[flow] = max(most[flow], held[flow])
        assert held[flow] <= workflow
        assert sum(held.values()) <= project
        await budget.settle("1", Usage(min(used, wanted), 0))
        held[flow] -= wanted - min(used, wanted)
        return True

    done: Sequence[bool] = await asyncio.gather(*(ask(*one) for one in requests))
    spent = await shop.spent()
    assert spent.tokens == sum(held.values()) <= project
    if not any(done):
        assert all(wanted > min(workflow, project) for _, wanted, _ in requests)
