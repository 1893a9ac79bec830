"""What a task works with beside its event and notes, and what becomes of what it leaves behind.

A workspace, connectors and skills are equipment: each opens for a task what that asked for, hands its agent
tools, and settles what came of it before the end of the task is stored.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from loops.agent.interruption import Abort
from loops.agent.result import AgentResult
from loops.agent.tools import Resources
from loops.store.tasks import ClaimedTask
from loops.tasks.workspace.leftovers import TURN


@dataclass(frozen=True, slots=True)
class Job:
    """A task that is worked on now, by `owner`. `abort` tells that somebody cancels it."""

    task: ClaimedTask
    owner: str
    abort: Abort

    @property
    def request(self) -> Mapping[str, Any]:
        """What the task was created with; see TaskRequest."""
        return self.task.request

    @property
    def place(self) -> str:
        """What the folders of this turn are called: those of another may be swept while it begins."""
        task = self.task
        return task.id if task.turn == 1 else f"{task.id}{TURN}{task.turn}"

    @property
    def has_begun(self) -> bool:
        """Whether rounds of this turn were kept."""
        return any(one.get("turn", 1) == self.task.turn for one in self.task.rounds)


@dataclass(frozen=True, slots=True)
class Came:
    """What a task came to, and the pull requests that were opened for it."""

    result: AgentResult
    pr_urls: tuple[str, ...] = ()


async def _as_it_is(came: Came) -> Came:
    return came


def _unchanged(resources: Resources) -> Resources:
    return resources


@dataclass(frozen=True, slots=True)
class Kit:
    """What one piece of equipment gives a task: `into` adds to what its tools work on, `settle` is called once the
    agent has ended by itself or by a guard, never after a cancel."""

    into: Callable[[Resources], Resources] = _unchanged
    settle: Callable[[Came], Awaitable[Came]] = _as_it_is


class Equipment(Protocol):
    """One piece of equipment."""

    def open(self, job: Job) -> AbstractAsyncContextManager[Kit | None]:
        """What it gives this task for as long as that is worked on; None where the task asked for nothing of it.
        Raises LoopsError, which ends the task."""


@dataclass(frozen=True, slots=True)
class Equipped:
    """All that a task was given."""

    resources: Resources
    kits: Sequence[Kit]

    async def settle(self, result: AgentResult) -> Came:
        """What the task comes to when every piece has seen to what it left."""
        came = Came(result)
        for kit in self.kits:
            came = await kit.settle(came)
        return came


@asynccontextmanager
async def equipped(job: Job, resources: Resources, equipment: Sequence[Equipment]) -> AsyncIterator[Equipped]:
    """Everything opened for one task, and closed after it in the opposite order."""
    async with AsyncExitStack() as stack:
        kits = [kit for one in equipment if (kit := await stack.enter_async_context(one.open(job))) is not None]
        for kit in kits:
            resources = kit.into(resources)
        yield Equipped(resources, kits)
