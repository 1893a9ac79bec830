"""How much of its quotas a project has used: what the API and the pages tell of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from config.settings import Settings
from loops.store import task_queries
from loops.store import tasks as store
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
class WorkflowUse:
    """One workflow's quota, and how many of its tasks are queued or running."""

    workflow_id: str
    name: str
    quota: QuotaUse
    running: int


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """The project's quota, and that of each workflow that created a task lately or has one under way."""

    quota: QuotaUse
    running: int
    workflows: Sequence[WorkflowUse]


def limits_of(settings: Settings) -> QuotaLimits:
    """The limits of this installation."""
    return QuotaLimits(settings.workflow_daily_tasks, settings.project_daily_tasks)


def project_use(connection: sa.Connection, project_id: str, limits: QuotaLimits, now: datetime) -> ProjectUse:
    """What a project has used, its busiest workflows first."""
    created = task_queries.created_since(connection, project_id, now - WINDOW)
    running = task_queries.under_way(connection, project_id)
    busy = created.keys() | running.keys()
    names = task_queries.workflow_names(connection, busy)
    uses = [
        WorkflowUse(
            one,
            names.get(one, one),
            _use(connection, ("workflow_id", one), created.get(one, 0), limits.workflow, now),
            running.get(one, 0),
        )
        for one in busy
    ]
    uses.sort(key=lambda use: (-use.quota.used, use.name, use.workflow_id))
    whole = _use(connection, ("project_id", project_id), sum(created.values()), limits.project, now)
    return ProjectUse(whole, sum(running.values()), uses)


def workflow_use(
    connection: sa.Connection, project_id: str, workflow_id: str, limits: QuotaLimits, now: datetime
) -> QuotaUse:
    """What one workflow has used."""
    created = task_queries.created_since(connection, project_id, now - WINDOW)
    return _use(connection, ("workflow_id", workflow_id), created.get(workflow_id, 0), limits.workflow, now)


def _use(connection: sa.Connection, whose: tuple[str, str], used: int, limit: int, now: datetime) -> QuotaUse:
    if used < limit:
        return QuotaUse(used, limit, None)
    newest = store.created(connection, *whose, now - WINDOW, limit)
    return QuotaUse(used, limit, next_slot(now, newest, limit))
