"""template-posthog-create-task: an AI task. The run waits until it has ended."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from loops.event import JsonValue
from loops.runs.state import Failed, Outcome, Parked, Succeeded, Wait
from loops.runs.step import Mocked, StepContext, StepOutcome, Transacted
from loops.tasks.prompt import opening_message
from loops.tasks.quota import Refused
from loops.tasks.result import TaskResult, skipped
from loops.tasks.service import NotAllowed, TaskRequest, TaskService, Unfit, title_of
from loops.tasks.thread.context import slack_context

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from loops.store.tasks import TaskRow

WAIT = "task"
_PATIENCE = timedelta(hours=24)
_REFUSED_STATUS = 409
_LATE = (
    "see whether tasks are worked on at all (a worker runs), and whether LOOPS_TASKS lets enough of them run at once"
)
_NO_PROMPT = "the prompt renders to an empty text: put words of your own beside its variables"
NO_INSTRUCTIONS = Failed("task.no_instructions", "Instructions are required", _NO_PROMPT)
MOCKED_MESSAGE = "The final message of the task (mocked: a test run creates no task)."
_MOCKED: Mapping[str, JsonValue] = {"string": "…", "number": 0, "boolean": False}
"""What a field of each type holds in a test run."""
_MENDS: Mapping[str, str] = {
    "timeout": "give it more time with LOOPS_TASK_SECONDS (a runner with its seconds), or ask for less in the prompt",
    "max_rounds": "allow more rounds with LOOPS_TASK_ROUNDS, or ask for less in the prompt",
    "budget": "allow more with LOOPS_TASK_TOKENS or LOOPS_TASK_COST, or in the daily budget that the reason names; or "
    "ask for less in the prompt",
    "stuck": "look at its last rounds for the call that it repeated, and say in the prompt what to do where that gives "
    "nothing new; or name a stronger model",
    "no_tool": "name a model that calls tools: this one answered in words alone",
    "invalid_output": "say in the prompt what each field of the result is, ask for fewer fields, or name a stronger "
    "model",
    "tool_error": "the log of the service has the fault of the tool; run the loop again once that is mended",
    "provider_error": "do what the reason says, or look at LOOPS_MODEL, LOOPS_MODEL_API_KEY and LOOPS_MODEL_BASE_URL",
    "runner_error": "do what the reason says; its last rounds show what it did, loops doctor whether it is installed",
    "not_equipped": "do what the reason says; `loops doctor` looks at the sandbox, the connections and what they reach",
    "internal_error": "a fault of Loops: the log of the service has it, under the id of the task",
    "refused": "look at the outputs of the task on the page of its run: each says why it was not taken, and the patch "
    "is kept there",
    "interrupted": "look why the worker died (its log, its memory), and run the loop again",
}
"""What a person can do about each way in which a task may end other than by itself."""


class CreateTask:
    """Result: {"id", "status", "ending", "reason", "final_message", "output", "pr_urls"}. A task that did not end by
    itself fails the step, what there is of its result kept; one that a quota refused is `skipped`."""

    def __init__(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def run(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> StepOutcome:
        request = task_request(context, inputs)
        if not request.prompt:
            return NO_INSTRUCTIONS

        def create(connection: "Connection") -> Outcome:
            created = self._tasks.create(connection, request, context.log)
            if isinstance(created, Refused):
                return _refused(created, inputs.get("non_failure_status_codes"))
            if isinstance(created, NotAllowed):
                return Failed("task.no_owner", created.reason, "enable the workflow again with a token that is valid")
            if isinstance(created, Unfit):
                return Failed("task.unfit", created.reason, created.mend)
            return came(created) or Parked(Wait(WAIT, context.now + _PATIENCE, {"task": created.id}))

        return Transacted(create)

    async def resume(self, _context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        task_id = str(wait.detail["task"])

        def look(connection: "Connection") -> Outcome:
            ended = came(self._tasks.find(connection, task_id))
            if ended is not None:
                return ended
            if wake is not None:
                return Parked(wait)
            self._tasks.cancel(connection, task_id)
            return Failed("task.timeout", f"Timed out waiting for the task to finish: it had {_PATIENCE}", _LATE)

        return Transacted(look)

    async def mock(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Mocked:
        """A task that is completed at once: its report says that it is none, its fields hold a value of their type."""
        request = task_request(context, inputs)
        if not request.prompt:
            return Mocked(NO_INSTRUCTIONS)
        context.log("no task is created: quotas, owner and model are not asked")
        repository = inputs.get("repository")
        is_written = isinstance(repository, str) and not request.staged
        links = [f"https://github.com/{repository}/pull/0"] if is_written else []
        output = {name: _MOCKED[kind] for name, kind in request.fields.items()}
        result = TaskResult("completed", "done", MOCKED_MESSAGE, MOCKED_MESSAGE, output, links)
        told: Mapping[str, JsonValue] = {
            "kind": "task",
            "title": title_of(request),
            "model": request.model or None,
            "repository": repository,
            "staged": request.staged,
            "first_message": opening_message(request.prompt, request.event),
            "fields": dict(request.fields),
            "answers_in": _thread_of(request),
        }
        return Mocked(Succeeded(result.as_json("mocked"), referred=True), (told,))


def task_request(context: StepContext, inputs: Mapping[str, JsonValue]) -> TaskRequest:
    """What the step asks for."""
    choice = inputs.get("model")
    model: Mapping[str, JsonValue] = choice if isinstance(choice, dict) else {}
    effort, parallel = model.get("reasoning_effort"), inputs.get("max_parallel_tasks")
    event = context.scope.get("event")
    groups, person = context.scope.get("groups"), context.scope.get("person")
    whole = {**event, "person": person, "groups": groups or {}} if isinstance(event, dict) and event else None
    return TaskRequest(
        project_id=context.project_id,
        workflow_id=context.workflow_id,
        run_id=context.run_id,
        step_id=context.action.id,
        key=context.key,
        prompt=str(inputs.get("prompt") or "").strip(),
        title=str(inputs.get("title") or "").strip(),
        model=str(model.get("model") or ""),
        effort=effort if isinstance(effort, str) else None,
        event=whole,
        fields=context.fields,
        parallel=parallel if isinstance(parallel, int) else 5,
        repository=str(inputs.get("repository") or ""),
        staged=inputs.get("staged") is True,
        connectors=_names(inputs.get("connectors")),
        scopes="full" if inputs.get("posthog_mcp_scopes") == "full" else "read_only",
        skills=_names(inputs.get("skills")),
        space=str(inputs.get("channel") or ""),
        in_thread=inputs.get("reply_in_slack_thread") is not False,
        allows_external=inputs.get("allow_external_users") is True,
        hears_everyone=inputs.get("allow_everyone_in_thread") is True,
    )


def _thread_of(request: TaskRequest) -> JsonValue:
    """The thread that the result would go to; None where it goes to none."""
    context = slack_context(request.event) if request.in_thread else None
    if context is None or (context.is_ext_shared and not request.allows_external):
        return None
    return {"channel": context.channel, "thread_ts": context.thread_ts}


def _names(given: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, given)) if isinstance(given, list) else ()


def came(task: "TaskRow") -> Outcome | None:
    """What a task that is over means for its step; None while it is not."""
    if not task.over:
        return None
    result = dict(task.result or {})
    if task.status == "completed":
        return Succeeded(result, referred=True)
    if task.status == "cancelled":
        return Failed("task.cancelled", "The task was cancelled", partial=result)
    # What was refused says so itself.
    ending = "" if task.ending == "refused" else f"{task.ending}: "
    words = f"The task {'failed' if task.status == 'failed' else 'is incomplete'}: {ending}{task.reason}"
    hint = str(result.get("mend") or _MENDS.get(task.ending, ""))
    return Failed(f"task.{task.ending}", words, hint, result, told=task.status == "incomplete")


def _refused(refused: Refused, codes: JsonValue) -> Outcome:
    """A refusal counts as 409: a success that tells why nothing ran, where the step lists it."""
    listed: Sequence[JsonValue] = codes if isinstance(codes, list) else [_REFUSED_STATUS]
    if _REFUSED_STATUS in listed or "4xx" in listed:
        return Succeeded(skipped(refused.reason).as_json(), referred=True, skipped=refused.reason)
    hint = "put 409 into non_failure_status_codes, and the run goes on and tells the reason"
    return Failed("task.refused", f"Task not created ({_REFUSED_STATUS}): {refused.reason}", hint)
