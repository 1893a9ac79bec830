"""Rows of tasks and rounds as a worker stores them, put there by a test."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import sqlalchemy as sa

from loops.agent.transcript import Call, CallResult, Reply, Round, Usage
from loops.event import JsonValue
from loops.ports import Writer
from loops.runs.state import Finish, Park, RunState, Wait
from loops.store import notes as note_store
from loops.store import runs
from loops.store import tasks as store
from loops.store.ids import new_id
from loops.store.runs import StepRow
from loops.store.tasks import NewTask, TaskEnd
from loops.tasks.prompt import SYSTEM_TEXT, opening_message

BEGAN = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
OWNER = "a worker"
REPORT = "The export stops at 10,000 rows since its query has a limit."


def request(prompt: str = "Report what the issue is about.", **event: Any) -> dict[str, Any]:
    """What the agent of a task begins with."""
    whole: dict[str, JsonValue] = {"event": "$github_event_received", "properties": event}
    return {
        "system": SYSTEM_TEXT,
        "opening": opening_message(prompt, whole),
        "prompt": prompt,
        "effort": None,
        "fields": {},
        "subject": None,
    }


def a_round(number: int, *calls: tuple[str, str, str], **changes: Any) -> Round:
    """A round whose calls are (name, arguments, result); a call without a result is being executed. A result that
    begins with `CODE: ` failed with that code."""
    asked = tuple(Call(f"call_{number}_{index}", name, given) for index, (name, given, _) in enumerate(calls))
    results = tuple(_result(call, text) for call, (_, _, text) in zip(asked, calls, strict=True) if text)
    said = {name: changes.pop(name) for name in ("text", "thought", "finish") if name in changes}
    usage = changes.pop("usage", Usage(1_200 + number, 80, 1_000))
    one = Round(
        number,
        BEGAN + timedelta(seconds=number),
        Reply(calls=asked, usage=usage, **said),
        results,
        seconds=1.5,
        cost=Decimal("0.0125"),
    )
    return replace(one, **changes)


def _result(call: Call, text: str) -> CallResult:
    code, colon, message = text.partition(": ")
    if not colon or not code.isupper():
        return CallResult(call.id, call.name, text, seconds=0.25)
    error = {"code": code, "message": message, "hint": "ask for less"}
    failed = json.dumps({"ok": False, "error": error})
    return CallResult(call.id, call.name, failed, code, 0.25)


@dataclass(slots=True)
class TaskRows:
    """Puts one task into the database, and moves it on as its worker does."""

    writer: Writer
    project_id: str
    workflow_id: str
    run_id: str
    step_id: str = "task"
    title: str = "Report on the issue"
    model: str = "anthropic:claude-sonnet-5"
    began: datetime = BEGAN
    id: str = field(default_factory=new_id)
    rounds: list[Round] = field(default_factory=list)

    async def create(self, asked: Mapping[str, Any] | None = None) -> "TaskRows":
        """A queued task."""
        new = NewTask(
            self.id,
            self.project_id,
            self.workflow_id,
            self.run_id,
            self.step_id,
            self.id,
            self.title,
            self.model,
            asked or request(),
        )
        await self.writer.run(lambda connection: store.insert(connection, new, self.began))
        return self

    async def begin(self) -> "TaskRows":
        """A worker takes it."""
        await self.writer.run(lambda connection: store.claim(connection, self.id, 0, OWNER, self.began))
        return self

    async def park_run(self) -> None:
        """The run has come to the step that asks for the task, and waits for it."""
        step = self._step("waiting", None, None)
        effect = Park(self.step_id, Wait("task", self.began + timedelta(hours=24), {"task": self.id}))

        def park(connection: sa.Connection) -> None:
            runs.claim(connection, self.run_id, 0, OWNER, self.began)
            runs.park(connection, self.run_id, 0, OWNER, RunState(self.step_id, 1), step, effect, self.began)

        await self.writer.run(park)

    async def end_run(self, status: str = "completed", result: JsonValue = None) -> None:
        """The run is woken by the task's end, and ends."""
        now = self.began + timedelta(seconds=91)
        step = self._step(status, result, now)
        outcome: Literal["completed", "failed"] = "completed" if status == "completed" else "failed"

        def end(connection: sa.Connection) -> None:
            runs.claim(connection, self.run_id, 1, OWNER, now)
            effect = Finish(outcome, "Reported" if status == "completed" else "its task failed")
            runs.finish(connection, self.run_id, 1, OWNER, RunState(None, 1), step, effect, now)

        await self.writer.run(end)

    def _step(self, status: str, result: JsonValue, finished_at: datetime | None) -> StepRow:
        return StepRow(
            step_id=self.step_id,
            type="function",
            name="Find the cause",
            position=0,
            status=status,
            result=result,
            error=None,
            log=(),
            started_at=self.began,
            finished_at=finished_at,
        )

    async def keep(self, *rounds: Round) -> None:
        """The worker keeps rounds."""

        def put(connection: sa.Connection) -> None:
            for one in rounds:
                known = [kept for kept in self.rounds if kept.number < one.number]
                usage, costs = sum((kept.reply.usage for kept in known), one.reply.usage), [kept.cost for kept in known]
                total = None if None in (*costs, one.cost) else float(sum(filter(None, costs), one.cost or 0))
                spent = store.Spending(usage.input, usage.output, total)
                store.keep_round(connection, self.id, OWNER, one.number, one.as_json(), spent, self.began)

        await self.writer.run(put)
        self.rounds = [*(one for one in self.rounds if one.number not in {new.number for new in rounds}), *rounds]

    async def tell(self, phase: str, number: int, *calls: str, text: str = "", since: datetime = BEGAN) -> None:
        """The worker says what it does."""
        activity = {
            "round": number, "phase": phase, "text": text, "calls": list(calls), "why": "", "since": since.isoformat(),
        }  # fmt: skip
        await self.writer.run(lambda connection: store.tell(connection, self.id, OWNER, activity, self.began))

    async def finish(self, status: str = "completed", ending: str = "done", reason: str = "", **result: Any) -> None:
        """The worker stores the end."""
        told = {
            "id": self.id, "status": status, "ending": ending, "reason": reason,
            "final_message": REPORT, "output": {}, "pr_urls": [], **result,
        }  # fmt: skip
        usage = sum((one.reply.usage for one in self.rounds), Usage())
        costs = [one.cost for one in self.rounds]
        known = [cost for cost in costs if cost is not None]
        cost = float(sum(known)) if known and len(known) == len(costs) else None
        end = TaskEnd(status, ending, reason, told, len(self.rounds), usage.input, usage.output, cost)
        now = self.began + timedelta(seconds=90)
        await self.writer.run(lambda connection: store.finish(connection, self.id, OWNER, end, now))


async def leave_note(writer: Writer, task: TaskRows, text: str, *, subject: str = "acme/widgets#42") -> str:
    """A note that a task left; its id."""
    return await writer.run(
        lambda connection: note_store.open_note(
            connection,
            project_id=task.project_id,
            workflow_id=task.workflow_id,
            subject=subject,
            task_id=task.id,
            text=text,
            key=new_id(),
            now=task.began,
        )
    )
