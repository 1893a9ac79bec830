"""How much of its quotas a project has used: what the API and the pages tell of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import sqlalchemy as sa

from config.settings import Settings
from loops.store import projects, spendings, task_queries
from loops.store import tasks as store
from loops.store.spendings import Spent
from loops.tasks.allowance import Allowance, Allowances, Limits, overridden, room_at
from loops.tasks.quota import WINDOW, QuotaLimits, next_slot


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Tasks created in the trailing 24 hours, of how many. `frees_at` is when the next slot frees: None while there is
    one, and where the limit is 0."""

    used: int
    limit: int
    frees_at: datetime | None

    @property
    def free(self) -> int:
        """How many tasks may be created now."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class SpendingUse:
    """Tokens and US dollars of the trailing 24 hours, what is put aside for requests under way counted in. `frees_at`
    is when there is room again: None while there is some, and where no clock brings it."""

    spent: Spent = field(default_factory=Spent)
    allowance: Allowance = field(default_factory=Allowance)
    frees_at: datetime | None = None

    @property
    def is_full(self) -> bool:
        """Whether a task would be refused for what was spent."""
        return bool(self.allowance.used_up(self.spent.tokens, self.spent.cost))


@dataclass(frozen=True, slots=True)
class Slot:
    """When a task may be created, by every quota and budget that it would be held to: now unless `is_full`, then `at`;
    None where no clock brings that."""

    is_full: bool = False
    at: datetime | None = None


def slot_of(quota: QuotaUse, spending: SpendingUse, above: Slot | None = None) -> Slot:
    """When all of them have room; `above` is what the project as a whole allows."""
    held = [Slot(not quota.free, quota.frees_at), Slot(spending.is_full, spending.frees_at), above or Slot()]
    full = [one.at for one in held if one.is_full]
    ends = [at for at in full if at is not None]
    return Slot(bool(full), max(ends) if full and len(ends) == len(full) else None)


@dataclass(frozen=True, slots=True)
class WorkflowUse:
    """One workflow's quota, what it spent, and how many of its tasks are queued or running."""

    workflow_id: str
    name: str
    quota: QuotaUse
    running: int
    spending: SpendingUse = field(default_factory=SpendingUse)
    slot: Slot = field(default_factory=Slot)


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """The project's quota, and that of each workflow that created a task lately or has one under way."""

    quota: QuotaUse
    running: int
    workflows: Sequence[WorkflowUse]
    spending: SpendingUse = field(default_factory=SpendingUse)
    slot: Slot = field(default_factory=Slot)


def limits_of(settings: Settings) -> Limits:
    """The limits of this installation."""
    return Limits(
        QuotaLimits(settings.workflow_daily_tasks, settings.project_daily_tasks),
        Allowances(
            Allowance(settings.task_tokens, settings.task_cost),
            Allowance(settings.workflow_daily_tokens, settings.workflow_daily_cost),
            Allowance(settings.project_daily_tokens, settings.project_daily_cost),
        ),
    )


def needs_price(settings: Settings) -> bool:
    """Whether a limit in money stands alone, which only a known price can hold."""
    spending = limits_of(settings).spending
    return spending.limits_cost and not spending.limits_tokens


def limits_of_project(connection: sa.Connection, project_id: str, limits: Limits) -> Limits:
    """What the project's tasks are held to: its own quotas, else the installation's."""
    return overridden(limits, projects.quotas(connection, project_id))


def project_use(connection: sa.Connection, project_id: str, limits: Limits | QuotaLimits, now: datetime) -> ProjectUse:
    """What a project has used, its busiest workflows first. `limits` are the installation's."""
    whole = limits_of_project(connection, project_id, limits if isinstance(limits, Limits) else Limits(limits))
    created = task_queries.created_since(connection, project_id, now - WINDOW)
    running = task_queries.under_way(connection, project_id)
    spent = spendings.by_workflows(connection, project_id, now - WINDOW)
    busy = created.keys() | running.keys() | spent.keys()
    names = task_queries.workflow_names(connection, busy)
    quota = _use(connection, ("project_id", project_id), sum(created.values()), whole.tasks.project, now)
    spending = _spending(connection, ("project_id", project_id), _sum(spent), whole.spending.project, now)
    slot, uses = slot_of(quota, spending), []
    for one in busy:
        whose = ("workflow_id", one)
        its = _use(connection, whose, created.get(one, 0), whole.tasks.workflow, now)
        its_spending = _spending(connection, whose, spent.get(one, Spent()), whole.spending.workflow, now)
        its_slot = slot_of(its, its_spending, slot)
        uses.append(WorkflowUse(one, names.get(one, one), its, running.get(one, 0), its_spending, its_slot))
    uses.sort(key=lambda use: (-use.quota.used, use.name, use.workflow_id))
    return ProjectUse(quota, sum(running.values()), uses, spending, slot)


def _spending(
    connection: sa.Connection, whose: tuple[str, str], spent: Spent, allowance: Allowance, now: datetime
) -> SpendingUse:
    use = SpendingUse(spent, allowance)
    if not use.is_full:
        return use
    return replace(use, frees_at=room_at(allowance, spendings.moments(connection, *whose, now - WINDOW)))


def _sum(spent: Mapping[str, Spent]) -> Spent:
    tokens, unpriced = (sum(getattr(one, name) for one in spent.values()) for name in ("tokens", "unpriced"))
    return Spent(tokens, sum((one.cost for one in spent.values()), Spent().cost), unpriced)


def workflow_use(
    connection: sa.Connection, project_id: str, workflow_id: str, limits: Limits, now: datetime
) -> QuotaUse:
    """What one workflow has used. `limits` are the installation's."""
    created = task_queries.created_since(connection, project_id, now - WINDOW)
    limit = limits_of_project(connection, project_id, limits).tasks.workflow
    return _use(connection, ("workflow_id", workflow_id), created.get(workflow_id, 0), limit, now)


def _use(connection: sa.Connection, whose: tuple[str, str], used: int, limit: int, now: datetime) -> QuotaUse:
    if used < limit:
        return QuotaUse(used, limit, None)
    newest = store.created(connection, *whose, now - WINDOW, limit)
    return QuotaUse(used, limit, next_slot(now, newest, limit))
