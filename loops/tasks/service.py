"""Creating tasks: who asked before is answered, then what it names, its owner and, under a lock, the quotas are asked.

Everything here is part of the caller's transaction, so a task, its place in the queue and the wait of its run are
stored together or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loops.event import JsonValue
from loops.ports import Clock, Engine
from loops.spaces import space_id
from loops.store import notes as note_store
from loops.store import projects, run_requests, spendings
from loops.store import skills as skill_store
from loops.store import tasks as store
from loops.store.ids import new_id
from loops.store.tasks import NewTask, TaskRow
from loops.tasks.allowance import Allowance, Limits, overridden, refused_for_the_day
from loops.tasks.ends import cancelled_end
from loops.tasks.prompt import opening_message, system_text
from loops.tasks.quota import WINDOW, Allowed, QuotaLimits, QuotaUsage, Refused, decide
from loops.tasks.thread.context import slack_context
from loops.tasks.thread.live import Asking, TaskThreads

if TYPE_CHECKING:
    from sqlalchemy import Connection

NO_OWNER = "Workflow has no owner who can run tasks."
FOREIGN_KEY = "Idempotency key is already used by another workflow."
_LONGEST_TITLE = 255


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task that a step asks for. `key` is the step's: asked for again it is the same task. `parallel` is how many
    tasks of the workflow may be under way, `fields` what its result has to hold beside the report.

    `repository` (owner/name) is what it works on, `connectors` are ids of connections and `skills` names, `scopes` says
    whether it may write through connectors, `space` is where its runs are listed, and `in_thread` lets it answer in the
    Slack thread that started it, `allows_external` also in a channel that is shared with another organisation;
    `hears_everyone` lets everybody of the workspace speak to it there. What it asks to have written waits for a person
    where it is `staged`.
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
    hears_everyone: bool = False
    staged: bool = False


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """Nobody is there as whom the task could run."""

    reason: str = NO_OWNER


@dataclass(frozen=True, slots=True)
class Unfit:
    """What the task names is not there, or may not be used: why, and what mends it."""

    reason: str
    mend: str = ""


Created: TypeAlias = TaskRow | Refused | NotAllowed | Unfit


Lacking: TypeAlias = Callable[["Connection", str, Sequence[str], Sequence[str], str], Unfit | None]
"""Why a task of this project cannot have these connectors and skills, with this repository; None where it can."""


def _nothing_lacks(
    _connection: "Connection", _project_id: str, _connectors: Sequence[str], _skills: Sequence[str], _repository: str
) -> Unfit | None:
    return None


class TaskService:
    """Creates tasks and stops them. `limits` are those of the installation, in whose place a project may have others; a
    step lowers the parallel one. `threads` gives tasks the Slack threads that they answer in."""

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        limits: QuotaLimits | Limits,
        lacking: Lacking = _nothing_lacks,
        threads: TaskThreads | None = None,
    ) -> None:
        self._clock = clock
        self._engine = engine
        self._limits = limits if isinstance(limits, Limits) else Limits(limits)
        self._lacking = lacking
        self._threads = threads

    def create(
        self, connection: "Connection", request: TaskRequest, log: Callable[[str], None] = lambda _text: None
    ) -> Created:
        """The task with the request's key: a new one, or the one that was created before, whatever the quotas say.
        `log` is told why a new one does not answer in the thread that it should answer in.

        The run is held from here on, so that a task which ends meanwhile finds it waiting. What was asked before the
        project was held is asked again under it.
        """
        run_requests.hold(connection, request.run_id)
        refusal = self._refusal(connection, request)
        if refusal is not None:
            return refusal
        store.hold_project(connection, request.project_id)
        refusal = self._refusal(connection, request)
        if refusal is not None:
            return refusal
        limits = overridden(self._limits, projects.quotas(connection, request.project_id))
        usage = self.usage(connection, request, limits)
        decision = decide(self._clock.now(), usage, replace(limits.tasks, parallel=request.parallel))
        if not isinstance(decision, Allowed):
            return decision
        task = self._insert(connection, request)
        self._bind(connection, request, task.id, log)
        return task

    def _refusal(self, connection: "Connection", request: TaskRequest) -> Created | None:
        """The answer to who asked before, or why nothing can be created whatever the quotas say."""
        known = store.by_key(connection, request.project_id, request.key)
        if known is not None:
            return known if known.workflow_id == request.workflow_id else Refused("key", FOREIGN_KEY)
        named = (request.connectors, request.skills, request.repository)
        unfit = self._lacking(connection, request.project_id, *named)
        if unfit is not None:
            return unfit
        return None if store.owner_can_run(connection, request.workflow_id) else NotAllowed()

    def usage(self, connection: "Connection", request: TaskRequest, limits: Limits) -> QuotaUsage:
        """What counts against the quotas now. Held against a limit, the newest tasks up to that limit tell all."""
        since = self._clock.now() - WINDOW
        workflow, project = ("workflow_id", request.workflow_id), ("project_id", request.project_id)
        return QuotaUsage(
            store.created(connection, *workflow, since, limits.tasks.workflow),
            store.created(connection, *project, since, limits.tasks.project),
            store.open_of(connection, request.workflow_id),
            self._spent(connection, "workflow", request.workflow_id, limits.spending.workflow)
            or self._spent(connection, "project", request.project_id, limits.spending.project),
        )

    def _spent(
        self, connection: "Connection", level: Literal["workflow", "project"], owner: str, allowance: Allowance
    ) -> Refused | None:
        if allowance == Allowance():
            return None
        now = self._clock.now()
        spent = spendings.moments(connection, f"{level}_id", owner, now - WINDOW)
        return refused_for_the_day(level, allowance, spent, now)

    def _insert(self, connection: "Connection", request: TaskRequest) -> TaskRow:
        subject = subject_of(request.event)
        notes = [] if subject is None else note_store.opened(connection, request.workflow_id, subject)
        told = {one.name: one.description for one in skill_store.named(connection, request.project_id, request.skills)}
        skills = [(name, told.get(name, "")) for name in request.skills]
        task = NewTask(
            id=new_id(),
            project_id=request.project_id,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
            step_id=request.step_id,
            key=request.key,
            title=title_of(request),
            model=request.model,
            request=_request_json(request, [(note.id, note.text) for note in notes], skills),
        )
        store.insert(connection, task, self._clock.now())
        if request.space:
            run_requests.list_in_space(connection, request.run_id, space_id(request.space))
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


def _request_json(
    request: TaskRequest, notes: Sequence[tuple[str, str]], skills: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    return {
        "system": system_text(request.repository),
        "opening": opening_message(request.prompt, request.event, notes, skills),
        "prompt": request.prompt,
        "title": request.title,
        "effort": request.effort,
        "fields": dict(request.fields),
        "subject": subject_of(request.event),
        "repository": request.repository,
        "connectors": list(request.connectors),
        "scopes": request.scopes,
        "skills": list(request.skills),
        "space": request.space,
        "in_thread": request.in_thread,
        "hears_everyone": request.hears_everyone,
        "staged": request.staged,
    }
