"""Creating tasks: who asked before is answered first, then the owner, then the quotas, under a lock.

Everything here is part of the caller's transaction, so a task, its place in the queue and the wait of its run are
stored together or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loops.event import JsonValue
from loops.ports import Clock, Engine
from loops.store import notes as note_store
from loops.store import run_requests
from loops.store import tasks as store
from loops.store.ids import new_id
from loops.store.tasks import NewTask, TaskRow
from loops.tasks.ending import cancelled_end
from loops.tasks.prompt import SYSTEM_TEXT, opening_message
from loops.tasks.quota import WINDOW, Allowed, QuotaLimits, QuotaUsage, Refused, decide
from loops.tasks.thread.context import slack_context
from loops.tasks.thread.live import Asking, TaskThreads

if TYPE_CHECKING:
    from sqlalchemy import Connection

NO_OWNER = "Workflow has no owner who can run tasks."
_LONGEST_TITLE = 255


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task that a step asks for. `key` is the step's: asked for again it is the same task. `parallel` is how many
    tasks of the workflow may be under way, `fields` what its result has to hold beside the report.

    `repository` (owner/name) is what it works on, `connectors` are ids of connections and `skills` names, `scopes` says
    whether it may write through connectors, `space` is where its runs are listed, and `in_thread` lets it answer in the
    Slack thread that started it, `allows_external` also in a channel that is shared with another organisation.
    """

    project_id: str
    workflow_id: str
    run_id: str
    step_id: str
    key: str
    prompt: str
    title: str = ""
    model: str = ""
    effort: str | None = None
    event: Mapping[str, JsonValue] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    parallel: int = 5
    repository: str = ""
    connectors: Sequence[str] = ()
    scopes: Literal["read_only", "full"] = "read_only"
    skills: Sequence[str] = ()
    space: str = ""
    in_thread: bool = True
    allows_external: bool = False


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """Nobody is there as whom the task could run."""

    reason: str = NO_OWNER


Created: TypeAlias = TaskRow | Refused | NotAllowed


class TaskService:
    """Creates tasks and stops them. `limits` are those of the installation; a step lowers the parallel one. `threads`
    gives tasks the Slack threads that they answer in."""

    def __init__(self, clock: Clock, engine: Engine, limits: QuotaLimits, threads: TaskThreads | None = None) -> None:
        self._clock = clock
        self._engine = engine
        self._limits = limits
        self._threads = threads

    def create(
        self, connection: "Connection", request: TaskRequest, log: Callable[[str], None] = lambda _text: None
    ) -> Created:
        """The task with the request's key: a new one, or the one that was created before, whatever the quotas say.
        `log` is told why a new one does not answer in the thread that it should answer in.

        The run is held from here on, so that a task which ends meanwhile finds it waiting.
        """
        run_requests.hold(connection, request.run_id)
        known = store.by_key(connection, request.project_id, request.key)
        if known is not None:
            return known
        if not store.owner_can_run(connection, request.workflow_id):
            return NotAllowed()
        store.hold_project(connection, request.project_id)
        decision = decide(self._clock.now(), self.usage(connection, request), self._limits_for(request))
        if not isinstance(decision, Allowed):
            return decision
        task = self._insert(connection, request)
        self._bind(connection, request, task.id, log)
        return task

    def usage(self, connection: "Connection", request: TaskRequest) -> QuotaUsage:
        """What counts against the quotas now. Held against a limit, the newest tasks up to that limit tell all."""
        since = self._clock.now() - WINDOW
        workflow, project = ("workflow_id", request.workflow_id), ("project_id", request.project_id)
        return QuotaUsage(
            store.created(connection, *workflow, since, self._limits.workflow),
            store.created(connection, *project, since, self._limits.project),
            store.open_of(connection, request.workflow_id),
        )

    def _limits_for(self, request: TaskRequest) -> QuotaLimits:
        return QuotaLimits(self._limits.workflow, self._limits.project, request.parallel)

    def _insert(self, connection: "Connection", request: TaskRequest) -> TaskRow:
        subject = subject_of(request.event)
        notes = [] if subject is None else note_store.opened(connection, request.workflow_id, subject)
        task = NewTask(
            id=new_id(),
            project_id=request.project_id,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
            step_id=request.step_id,
            key=request.key,
            title=title_of(request),
            model=request.model,
            request=_request_json(request, [(note.id, note.text) for note in notes]),
        )
        store.insert(connection, task, self._clock.now())
        self._engine.enqueue_task(connection, task.id, 0)
        return store.get(connection, task.id)

    def _bind(self, connection: "Connection", request: TaskRequest, task_id: str, log: Callable[[str], None]) -> None:
        context = slack_context(request.event) if request.in_thread else None
        if context is None or self._threads is None:
            return
        here = (task_id, request.project_id, request.workflow_id, request.run_id, context)
        fault = self._threads.bind(connection, Asking(*here, request.allows_external))
        log(f"the task does not answer in the thread: {fault}" if fault else "the task answers in the thread")

    def find(self, connection: "Connection", task_id: str) -> TaskRow:
        """The task, its run held. Raises NotFound."""
        run_requests.hold(connection, store.get(connection, task_id).run_id)
        return store.get(connection, task_id)

    def stop(self, connection: "Connection", task_id: str) -> bool:
        """Stop a task whose run is cancelled: True when it is over now, False when somebody works on it, who sees that
        the run's cancellation was asked for, stops, and wakes the run."""
        end = cancelled_end(task_id)
        if not store.end_queued(connection, task_id, end, self._clock.now()):
            return False
        if self._threads is not None:
            self._threads.task_over(connection, task_id, end)
        return True

    def cancel(self, connection: "Connection", task_id: str) -> None:
        """Ask that a task ends as cancelled."""
        store.request_cancel(connection, task_id, self._clock.now())


def title_of(request: TaskRequest) -> str:
    """What the task is called: by its prompt where it has no title."""
    return (request.title or request.prompt)[:_LONGEST_TITLE]


def subject_of(event: Mapping[str, JsonValue] | None) -> str | None:
    """What the event is about (a thread, an issue, a branch): notes are kept for it."""
    subject = (event or {}).get("subject")
    return subject if isinstance(subject, str) and subject else None


def _request_json(request: TaskRequest, notes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "system": SYSTEM_TEXT,
        "opening": opening_message(request.prompt, request.event, notes),
        "prompt": request.prompt,
        "effort": request.effort,
        "fields": dict(request.fields),
        "subject": subject_of(request.event),
        "repository": request.repository,
        "connectors": list(request.connectors),
        "scopes": request.scopes,
        "skills": list(request.skills),
        "space": request.space,
        "in_thread": request.in_thread,
    }
