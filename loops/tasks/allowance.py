"""What tasks may spend: tokens and US dollars of a task, and of a workflow and its project in the trailing 24 hours.

What one task may spend is asked before each of its requests; what a day may is asked there and when a task is created.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Literal, TypeAlias

from loops.definition.findings import suggestion
from loops.errors import RequestError
from loops.event import JsonValue
from loops.tasks.quota import WINDOW, QuotaLimits, Refused, told_to_the_second

Level = Literal["task", "workflow", "project"]
Spending: TypeAlias = tuple[datetime, int, Decimal]
"""When, how many tokens, how many US dollars."""

_MOST_TASKS = 1_000_000
_MOST_TOKENS = 1_000_000_000_000
_MOST_COST = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Tokens and US dollars that may be spent; None for any number."""

    tokens: int | None = None
    cost: Decimal | None = None

    def over(self, tokens: int, cost: Decimal) -> str:
        """Which of the two such a spending is over, in words; empty where it is over neither."""
        if self.tokens is not None and tokens > self.tokens:
            return f"{tokens} tokens, {self.tokens} at most"
        if self.cost is not None and cost > self.cost:
            return f"${cost:.4f}, ${self.cost} at most"
        return ""

    def used_up(self, tokens: int, cost: Decimal) -> str:
        """Which of the two has no room left, in words; empty while both have."""
        if self.tokens is not None and tokens >= self.tokens:
            return f"{self.tokens} tokens"
        if self.cost is not None and cost >= self.cost:
            return f"${self.cost}"
        return ""


@dataclass(frozen=True, slots=True)
class Allowances:
    """Of one task, and in a day of one workflow and of one project."""

    task: Allowance = field(default_factory=Allowance)
    workflow: Allowance = field(default_factory=Allowance)
    project: Allowance = field(default_factory=Allowance)

    def levels(self) -> Iterator[tuple[Level, Allowance]]:
        """Each level with its allowance, the narrowest first."""
        yield "task", self.task
        yield "workflow", self.workflow
        yield "project", self.project

    @property
    def limits_cost(self) -> bool:
        """Whether there is a limit in money anywhere."""
        return any(one.cost is not None for _, one in self.levels())

    @property
    def limits_tokens(self) -> bool:
        """Whether there is a limit in tokens anywhere, which holds a model without a known price."""
        return any(one.tokens is not None for _, one in self.levels())


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a project's tasks are held to."""

    tasks: QuotaLimits = field(default_factory=QuotaLimits)
    spending: Allowances = field(default_factory=Allowances)


OVERRIDES: Mapping[str, str] = {
    "workflow_tasks": "tasks of one workflow in 24 hours",
    "project_tasks": "tasks of the project in 24 hours",
    "task_tokens": "tokens of one task",
    "workflow_tokens": "tokens of one workflow in 24 hours",
    "project_tokens": "tokens of the project in 24 hours",
    "task_cost": "US dollars of one task",
    "workflow_cost": "US dollars of one workflow in 24 hours",
    "project_cost": "US dollars of the project in 24 hours",
}
"""What a project may have quotas of its own for, in place of the installation's."""


def overridden(limits: Limits, given: Mapping[str, JsonValue]) -> Limits:
    """The limits with those that a project set for itself (see `checked_overrides`) in their place."""
    tasks = replace(
        limits.tasks,
        workflow=_whole(given.get("workflow_tasks"), limits.tasks.workflow),
        project=_whole(given.get("project_tasks"), limits.tasks.project),
    )
    task, workflow, project = (_allowance(name, one, given) for name, one in limits.spending.levels())
    return Limits(tasks, Allowances(task, workflow, project))


def _whole(given: JsonValue, usual: int) -> int:
    return given if isinstance(given, int) else usual


def _allowance(level: Level, usual: Allowance, given: Mapping[str, JsonValue]) -> Allowance:
    tokens, cost = given.get(f"{level}_tokens"), given.get(f"{level}_cost")
    return Allowance(
        tokens if isinstance(tokens, int) else usual.tokens, Decimal(cost) if isinstance(cost, str) else usual.cost
    )


def checked_overrides(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Quotas of a project as they are stored: whole numbers, money as a decimal text. One that is null is left out.
    Raises RequestError."""
    stored: dict[str, JsonValue] = {}
    for name, value in given.items():
        if name not in OVERRIDES:
            raise RequestError("is not a quota", hint=suggestion(name, list(OVERRIDES)), path=f"quotas.{name[:60]}")
        if value is not None:
            stored[name] = _money(name, value) if name.endswith("_cost") else _number(name, value)
    return stored


def _number(name: str, value: JsonValue) -> int:
    most = _MOST_TASKS if name.endswith("_tasks") else _MOST_TOKENS
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise RequestError("is no such number", hint=f"a whole number from 0 to {most}", path=f"quotas.{name}")
    return value


def _money(name: str, value: JsonValue) -> str:
    hint = f"US dollars from 0 to {_MOST_COST}, as 2.50"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RequestError("is no amount of money", hint=hint, path=f"quotas.{name}")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount <= _MOST_COST:
        raise RequestError("is no amount of money", hint=hint, path=f"quotas.{name}")
    return f"{amount:f}"


def refused_for_the_day(
    level: Literal["workflow", "project"], allowance: Allowance, spendings: Sequence[Spending], now: datetime
) -> Refused | None:
    """Why a day's spending leaves no room for another task, and when it does; None while there is room."""
    counted = [one for one in spendings if one[0] > now - WINDOW]
    reached = allowance.used_up(sum(one[1] for one in counted), sum((one[2] for one in counted), Decimal(0)))
    if not reached:
        return None
    frees_at = room_at(allowance, counted)
    when = (
        "No room frees, since the limit is 0." if frees_at is None else f"Room frees at {told_to_the_second(frees_at)}."
    )
    who = "This workflow" if level == "workflow" else "This project"
    words = f"{who} reached its daily budget of {reached} (trailing 24 hours). The event was skipped. {when}"
    return Refused("workflow_spending" if level == "workflow" else "project_spending", words, frees_at)


def room_at(allowance: Allowance, spendings: Iterable[Spending]) -> datetime | None:
    """The first instant at which less than the allowance lies in the window; None where no clock brings it."""
    left = sorted(spendings)
    tokens, cost = sum(one[1] for one in left), sum((one[2] for one in left), Decimal(0))
    for moment, some_tokens, some_cost in left:
        tokens, cost = tokens - some_tokens, cost - some_cost
        if not allowance.used_up(tokens, cost):
            return moment + WINDOW
    return None
