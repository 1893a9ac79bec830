"""The agent of this package, on the model that the task names."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loops.agent.loop import Agent
from loops.agent.model import ModelSettings
from loops.agent.models.choice import Models
from loops.agent.result import AgentResult
from loops.agent.tools import toolbox
from loops.ports import Clock
from loops.tasks.equipment import Job
from loops.tasks.runners.runner import Work


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Runs loops/agent. `named` is told the name of the model before its first answer."""

    models: Models
    clock: Clock
    named: Callable[[Job, str], Awaitable[None]]

    async def run(self, work: Work) -> AgentResult:
        """See Runner."""
        task, request = work.job.task, work.job.request
        async with self.models.open(task.model) as opened:
            await self.named(work.job, opened.name)
            # Later steps read the fields of the first turn; nobody reads those of another.
            fields = request.get("fields") if task.turn == 1 else None
            agent = Agent(
                task.id,
                opened.model,
                toolbox(work.resources, fields=fields, more=work.tools),
                work.journal,
                self.clock,
                work.guards,
                ModelSettings(effort=request.get("effort")),
                opened.pricing,
                work.limits.budget(opened.pricing, work.transcript),
                work.observer,
                inbox=work.hears,
            )
            return await agent.run(work.transcript, work.job.abort)
