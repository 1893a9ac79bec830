"""How much of its quotas a project has used: what the API and the pages tell of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from config.settings import Settings
from loops.store import projects, spendings, task_queries
from loops.store import tasks as store
from loops.store.spendings import Spent
from loops.tasks.allowance import Allowance, Allowances, Limits, overridden
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
    """Tokens and US dollars of the trailing 24 hours, what is put aside for requests under way counted in."""

    spent: Spent = field(default_factory=Spent)
    allowance: Allowance = field(default_factory=Allowance)


@dataclass(frozen=True, slots=True)
class WorkflowUse:
    """One workflow's quota, what it spent, and how many of its tasks are queued or running."""

    workflow_id: str
    name: str
    quota: QuotaUse
    running: int
    spending: SpendingUse = field(default_factory=SpendingUse)


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """The project's quota, and that of each workflow that created a task lately or has one under way."""

    quota: QuotaUse
    running: int
    workflows: Sequence[WorkflowUse]
    spending: SpendingUse = field(default_factory=SpendingUse)


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
    uses = [
        WorkflowUse(
            one,
            names.get(one, one),
            _use(connection, ("workflow_id", one), created.get(one, 0), whole.tasks.workflow, now),
            running.get(one, 0),
            SpendingUse(spent.get(one, Spent()), whole.spending.workflow),
        )
        for one in busy
    ]
    uses.sort(key=lambda use: (-use.quota.used, use.name, use.workflow_id))
    quota = _use(connection, ("project_id", project_id), sum(created.values()), whole.tasks.project, now)
    spending = SpendingUse(_sum(spent), whole.spending.project)
    return ProjectUse(quota, sum(running.values()), uses, spending)


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
