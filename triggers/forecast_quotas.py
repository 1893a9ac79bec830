"""What a forecast goes by, what it counts, and the quotas that it holds its tasks against."""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from loops.tasks.allowance import Allowance, Allowances, Spending, refused_for_the_day
from loops.tasks.quota import WINDOW, QuotaLimits, QuotaUsage, Refused, decide

MOST_EXAMPLES = 3
REFUSED = "quota"


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a forecast goes by beside the events.

    Each run creates `tasks` tasks and `lasts` so long; `limits` are the quotas, and `other_tasks` when other workflows
    created tasks. Each task takes `tokens` and `cost` (US dollars) of what `spending` allows for a day, of which other
    workflows took `others_spent`. `subject_runs` events of one subject may start runs within an hour (0: any number),
    and `other_runs` are those that started runs of other workflows: when, and which. All in their order.
    """

    tasks: int = 0
    lasts: timedelta = timedelta(minutes=5)
    limits: QuotaLimits = field(default_factory=QuotaLimits)
    other_tasks: Sequence[datetime] = ()
    tokens: int = 0
    cost: Decimal = Decimal(0)
    spending: Allowances = field(default_factory=Allowances)
    others_spent: Sequence[Spending] = ()
    subject_runs: int = 0
    other_runs: Mapping[str, Sequence[tuple[datetime, str]]] = field(default_factory=dict)


@dataclass(slots=True)
class Peak:
    """The most that was used of a quota, and when first."""

    most: int = 0
    at: datetime | None = None


class Example(NamedTuple):
    """A delivery of which something came, and when."""

    at: datetime
    delivery: str


@dataclass(slots=True)
class TasksOfHour:
    """Tasks that would have been created within an hour, and refused."""

    created: int = 0
    refused: int = 0


@dataclass(slots=True)
class Tally:
    """What came of it: verdicts by stage, and by hour and stage; tasks that were created, and refused by quota.

    Of the runs that start, `waited` had to wait for their turn and `replaced` were cancelled for a newer one. `pending`
    is what debounce still held in the end. `examples` are the last deliveries of each stage, and under `REFUSED` those
    whose task was refused.
    """

    counts: "Counter[str]" = field(default_factory=Counter)
    hours: "dict[datetime, Counter[str]]" = field(default_factory=lambda: defaultdict(Counter))
    tasks: dict[datetime, TasksOfHour] = field(default_factory=lambda: defaultdict(TasksOfHour))
    examples: dict[str, deque[Example]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=MOST_EXAMPLES))
    )
    created: int = 0
    refused: "Counter[str]" = field(default_factory=Counter)
    first_refused: dict[str, datetime] = field(default_factory=dict)
    peaks: dict[str, Peak] = field(default_factory=lambda: defaultdict(Peak))
    waited: int = 0
    replaced: int = 0
    pending: int = 0

    def count(self, stage: str, at: datetime, delivery: str = "") -> None:
        """An event of this delivery came to an end at this stage; an occurrence of a schedule has no delivery."""
        self.counts[stage] += 1
        self.hours[_hour(at)][stage] += 1
        if delivery:
            self.examples[stage].append(Example(at, delivery))

    def create(self, at: datetime) -> None:
        """A task was created."""
        self.created += 1
        self.tasks[_hour(at)].created += 1

    def refuse(self, quota: str, at: datetime, delivery: str = "") -> None:
        """A task was refused by this quota."""
        self.refused[quota] += 1
        self.first_refused.setdefault(quota, at)
        self.tasks[_hour(at)].refused += 1
        if delivery:
            self.examples[REFUSED].append(Example(at, delivery))


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


class Day:
    """What was spent in the trailing 24 hours, by the draft and by other workflows."""

    def __init__(self, assumed: Assumed) -> None:
        self._allowed = assumed.spending
        self._each = (assumed.tokens, assumed.cost)
        self._own: deque[Spending] = deque()
        self._others: deque[Spending] = deque()
        self._others_left = deque(assumed.others_spent)

    def refuses(self, at: datetime) -> Refused | None:
        """Why the budgets of a day leave no room for another task; None while there is room."""
        if self._allowed.workflow == Allowance() and self._allowed.project == Allowance():
            return None
        while self._others_left and self._others_left[0][0] <= at:
            self._others.append(self._others_left.popleft())
        for spent in (self._own, self._others):
            while spent and spent[0][0] <= at - WINDOW:
                spent.popleft()
        return refused_for_the_day("workflow", self._allowed.workflow, self._own, at) or refused_for_the_day(
            "project", self._allowed.project, [*self._own, *self._others], at
        )

    def spend(self, at: datetime) -> None:
        """A task was created."""
        self._own.append((at, *self._each))


class Quotas:
    """The quotas of tasks: the same decision as when a task is created."""

    def __init__(self, assumed: Assumed, tally: Tally) -> None:
        self._tally = tally
        self._limits = assumed.limits
        self._created: deque[datetime] = deque()
        self._others: deque[datetime] = deque()
        self._others_left = deque(assumed.other_tasks)
        self._day = Day(assumed)

    def create(self, at: datetime, running: int, delivery: str = "") -> bool:
        """The run of a delivery asks for a task while so many are under way; whether it is created."""
        while self._others_left and self._others_left[0] <= at:
            self._others.append(self._others_left.popleft())
        for created in (self._created, self._others):
            while created and created[0] <= at - WINDOW:
                created.popleft()
        usage = QuotaUsage(self._created, [*self._created, *self._others], running, self._day.refuses(at))
        refused = decide(at, usage, self._limits)
        if isinstance(refused, Refused):
            self._tally.refuse(refused.quota, at, delivery)
            return False
        self._created.append(at)
        self._day.spend(at)
        self._tally.create(at)
        used = {"workflow": len(self._created), "project": len(usage.project) + 1, "parallel": running + 1}
        for quota, number in used.items():
            if number > self._tally.peaks[quota].most:
                self._tally.peaks[quota] = Peak(number, at)
        return True
