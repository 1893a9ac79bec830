"""Who works on a task, as a port."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loops.agent.guards import Limits
from loops.agent.inbox import BeginsWith, Inbox, NobodySpeaks
from loops.agent.journal import Journal, Observer
from loops.agent.result import AgentResult
from loops.agent.tools import Resources
from loops.agent.tools.tool import Tool
from loops.agent.transcript import Transcript
from loops.tasks.equipment import Job
from loops.tasks.limits import WorkLimits


@dataclass(frozen=True, slots=True)
class Work:
    """One turn of a task as it is handed to its runner. `transcript` holds the rounds that were kept, `tools` are more
    than those that come with the resources, `inbox` is what people say meanwhile, and before every turn but the first.
    """

    job: Job
    transcript: Transcript
    journal: Journal
    observer: Observer
    resources: Resources
    limits: WorkLimits
    tools: Sequence[Tool] = ()
    inbox: Inbox = field(default_factory=NobodySpeaks)

    @property
    def hears(self) -> Inbox:
        """What the agent hears before its rounds: as a later turn begins, first what it works on now."""
        begins = "" if self.transcript.current else self.resources.begins
        return BeginsWith(begins, self.inbox) if begins else self.inbox

    @property
    def guards(self) -> Limits:
        """How far an agent may go."""
        return self.limits.agent


class Runner(Protocol):
    """Works on a task to its end. When it is cancelled, all that it started is gone, and it can be called again with
    the rounds that were journalled; when the job's abort is asked for, it ends as `cancelled` after the same."""

    async def run(self, work: Work) -> AgentResult:
        """What the task came to. Raises LoopsError where it cannot be worked on."""
