"""How many tasks may be created: rolling windows of 24 hours, and a limit on those that are under way.

    decide(now, usage, limits) -> Allowed | Refused(reason, frees_at)

What counts is what was created in the trailing 24 hours, not in a calendar day; a refused attempt does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

WINDOW = timedelta(hours=24)
Quota = Literal["workflow", "project", "workflow_spending", "project_spending", "parallel", "key"]


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Tasks in 24 hours of one workflow and of its project, and how many of the workflow may be under way."""

    workflow: int = 100
    project: int = 500
    parallel: int = 5


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """When tasks of the workflow and of the project were created, in any order, and how many are under way. `spent` is
    the refusal of a budget that the day has used up; see allowance.py."""

    workflow: Sequence[datetime] = ()
    project: Sequence[datetime] = ()
    running: int = 0
    spent: "Refused | None" = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """A task may be created now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Which quota refuses, why in words, and when its next slot frees; None where no clock can tell."""

    quota: Quota
    reason: str
    frees_at: datetime | None = None


Decision: TypeAlias = Allowed | Refused


def decide(now: datetime, usage: QuotaUsage, limits: QuotaLimits) -> Decision:
    """Whether a task may be created at `now`. The workflow's window is asked first, then the project's,
    then what they spent, and last how many tasks are under way."""
    windows: tuple[tuple[Quota, Sequence[datetime], int], ...] = (
        ("workflow", usage.workflow, limits.workflow),
        ("project", usage.project, limits.project),
    )
    for quota, created, limit in windows:
        if len(in_window(now, created)) >= limit:
            return _refused(quota, limit, next_slot(now, created, limit))
    if usage.spent is not None:
        return usage.spent
    if usage.running >= limits.parallel:
        return Refused(
            "parallel",
            f"This workflow already has {usage.running} tasks in flight (limit {limits.parallel}). The event was "
            "skipped. The next slot frees when one of them ends.",
        )
    return Allowed()


def in_window(now: datetime, created: Sequence[datetime]) -> list[datetime]:
    """What of it lies in the trailing 24 hours, oldest first. What is exactly 24 hours old does not count any more.

    A time ahead of `now`, written by a clock that goes before ours, counts.
    """
    return sorted(moment for moment in created if moment > now - WINDOW)


def next_slot(now: datetime, created: Sequence[datetime], limit: int) -> datetime | None:
    """The first instant at which fewer than `limit` lie in the window; `now` when that is so already, None for a
    limit of none at all."""
    if limit <= 0:
        return None
    counted = in_window(now, created)
    return now if len(counted) < limit else counted[len(counted) - limit] + WINDOW


def _refused(quota: Quota, limit: int, frees_at: datetime | None) -> Refused:
    who = "This workflow" if quota == "workflow" else "This project"
    whose = "tasks" if quota == "workflow" else "tasks created by workflows"
    when = (
        "No slot frees, since the limit is 0."
        if frees_at is None
        else f"The next slot frees at {told_to_the_second(frees_at)}."
    )
    reason = f"{who} reached its daily limit of {limit} {whose} (trailing 24 hours). The event was skipped. {when}"
    return Refused(quota, reason, frees_at)


def told_to_the_second(moment: datetime) -> str:
    """An instant in words, rounded up: at the time that is told the slot is free."""
    if moment.microsecond:
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
