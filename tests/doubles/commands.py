"""Commands as runners: a task that is handed to one in a sandbox, without a service around it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.runner_settings import RunnerSettings
from loops.agent.guards import Limits
from loops.agent.inbox import Inbox, NobodySpeaks
from loops.agent.interruption import Abort
from loops.agent.journal import MemoryJournal, Unobserved
from loops.agent.models.runners import Chosen
from loops.agent.result import AgentResult
from loops.agent.tools import Resources
from loops.agent.transcript import Round, Transcript
from loops.clock import SystemClock
from loops.store.tasks import ClaimedTask
from loops.tasks.equipment import Job
from loops.tasks.limits import WorkLimits
from loops.tasks.prompt import opening_message
from loops.tasks.runners.choice import dialect_of
from loops.tasks.runners.external import ExternalRunner, Surroundings
from loops.tasks.runners.runner import Work
from loops.tasks.workspace.sandbox import Room, Sandboxes
from loops.tasks.workspace.workspace import Workspace
from server.runners import room_of

PROMPT = "Fix the typo in hello.py."
OBJECTS = "/repository/objects"
HELLO = 'print("helo")\n'


@dataclass
class Commanded:
    """Hands tasks to a runner. What it works on is a checkout with `hello.py`."""

    folder: Path
    sandboxes: Sandboxes
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    abort: Abort = field(default_factory=Abort)
    named: list[str] = field(default_factory=list)

    @property
    def checkout(self) -> Path:
        """What it works on."""
        return self.folder / "checkout"

    @property
    def objects(self) -> Path:
        """What its checkout borrows, at OBJECTS inside."""
        return self.folder / "objects"

    @property
    def hello(self) -> str:
        """The file as it is now."""
        return (self.checkout / "hello.py").read_text()

    def work(
        self,
        resources: Resources,
        kept: tuple[Round, ...] = (),
        limits: WorkLimits | None = None,
        *,
        turn: int = 1,
        inbox: Inbox | None = None,
        **request: Any,
    ) -> Work:
        """A task as it is handed over."""
        asked = {"prompt": PROMPT, "fields": {}, **request}
        claimed = ClaimedTask("task-1", "p", "w", "r", "s", "", asked, (), None, cancel_requested=False)
        return Work(
            Job(claimed, "here", self.abort),
            Transcript("", opening_message(PROMPT), kept, turn),
            self.journal,
            Unobserved(),
            resources,
            limits or WorkLimits(Limits(max_rounds=8)),
            inbox=inbox or NobodySpeaks(),
        )

    async def run(self, settings: RunnerSettings, model: str = "", *, code: bool = True, **given: Any) -> AgentResult:
        """What it comes to; without `code` it works on no checkout."""
        self.checkout.mkdir(parents=True, exist_ok=True)
        (self.checkout / "hello.py").write_text(HELLO)
        self.objects.mkdir(exist_ok=True)
        (self.objects / "pack").write_text("objects")
        self.sandboxes.own(self.checkout)
        around = Surroundings(self.sandboxes, self.folder / "runners", SystemClock(), self._name, room_of)
        runner = ExternalRunner(settings, dialect_of(settings), Chosen(settings.name, model), around)
        async with self.sandboxes.open(Room(self.checkout, {OBJECTS: self.objects})) as sandbox:
            resources = Resources(workspace=Workspace(sandbox, self.checkout) if code else None)
            return await runner.run(self.work(resources, **given))

    async def _name(self, _job: Job, model: str) -> None:
        self.named.append(model)
