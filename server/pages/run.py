"""/runs/{id}: what happened in a run, why, and what it cost; and the part of the page that follows it while it runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import RequestError
from loops.runs.state import OVER
from loops.store import outbox, run_queries, task_queries
from loops.store import outputs as output_store
from loops.store import tasks as task_store
from loops.store import threads as thread_store
from loops.store import workflows as workflows_store
from loops.store.outbox import OutboxRow
from loops.store.runs import TURN
from loops.store.task_queries import NOTHING, Spent
from loops.tasks.result import skip_reason
from server.cost_words import with_source
from server.happening import happenings, run_happening
from server.pages.addresses import path_of, wanted_id
from server.pages.inert import Shown, shown_value
from server.pages.money import spent_words
from server.pages.outputs import shown_outputs
from server.pages.tasks import TaskShown, shown_task
from server.pages.visit import Visit
from server.pages.words import took
from server.spaces import space_of_run

MOST_RESULT = 20_000
MOST_LOG = 64_000
# Tasks and messages wake their run themselves, once they have ended.
_NOT_RESUMED = frozenset({"task", "message", TURN})
_UNSENT = frozenset({"shown", "retry", "refused", "uncertain"})
_SEEN = re.compile(r"([0-9a-f]{1,40})\.([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step on the page of its run. `hidden_lines` is how many lines of its log are left out, `note` says why it did
    nothing where that is so. `messages` are those of it that did not leave, or have not yet."""

    id: str
    name: str
    type: str
    status: str
    started_at: datetime | None
    took: str | None
    lines: Sequence[Mapping[str, str]]
    hidden_lines: int
    result: Shown | None
    error: Mapping[str, Any] | None
    note: str = ""
    tasks: tuple[TaskShown, ...] = ()
    messages: tuple[OutboxRow, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """What one read of the database gave."""

    run: Mapping[str, Any]
    steps: Sequence[StepShown]
    spent: Spent | None
    messages: Sequence[OutboxRow]
    what: str


async def show_run(visit: Visit) -> web.Response:
    """GET /runs/{id}"""
    return await run_page(visit)


async def follow_run(visit: Visit) -> web.Response:
    """GET /runs/{id}/live: the part of the page that changes, without the rounds that `after` names."""
    return await run_page(visit, template="run_live.html", seen=_seen(visit.request.query.get("after", "")))


def _seen(text: str) -> Mapping[str, int]:
    """The tasks that a page has, each with the last round of it: `id.round,id.round`. Raises RequestError."""
    found = [_SEEN.fullmatch(piece) for piece in text.split(",")] if text else []
    if not all(found):
        raise RequestError("this is no place in a run", hint="load its page again", path="after")
    return {one[1]: int(one[2]) for one in found if one is not None}


async def run_page(
    visit: Visit,
    status: int = 200,
    alert: str = "",
    *,
    template: str = "run.html",
    seen: Mapping[str, int] | None = None,
) -> web.Response:
    """The page of the run in the path, or what follows it."""
    run_id = wanted_id(visit.request.match_info["id"], "run")
    project, now = visit.who.project_id, visit.services.clock.now()
    read = await visit.services.reader.read(lambda connection: _read(connection, project, run_id, now, seen or {}))
    run = read.run
    is_open = run["status"] not in OVER
    acts = is_open or any(task.acts for step in read.steps for task in step.tasks)
    waits = run["status"] == "waiting" and (run["wait"] or {}).get("kind")
    tasks = [task for step in read.steps for task in step.tasks]
    return visit.show(
        template,
        status,
        run=run,
        what=read.what,
        space=space_of_run(run),
        steps=read.steps,
        messages=read.messages,
        variables=_value(run["state"].get("variables")),
        took=run_took(run, now),
        spent=_spent_words(read.spent, run["cost"], [task.model for task in tasks]),
        is_open=is_open,
        live=path_of("runs", run_id, "live", after=",".join(f"{task.id}.{task.settled}" for task in tasks) or None),
        news=_news(run, tasks),
        acts=acts,
        can_answer=visit.may("editor"),
        patches=path_of("api", "projects", project, "tasks"),
        can_cancel=acts and visit.may("editor"),
        can_resume=bool(waits) and waits not in _NOT_RESUMED and visit.may("editor"),
        export=path_of("api", "projects", project, "runs", run_id, "export"),
        alert=alert,
    )


def _spent_words(spent: Spent | None, stored: float, models: Sequence[str]) -> str:
    """What the run cost; nothing for one that never asked for a task."""
    if spent is not None:
        return with_source(spent_words(spent, models), models, spent.known)
    return spent_words(Spent(cost=stored)) if stored else ""


def _news(run: Mapping[str, Any], tasks: Sequence[TaskShown]) -> str:
    """What a screen reader is told whenever it changes: no seconds, which change all the time."""
    lines = [task.line.partition(", for ")[0] for task in tasks if task.line]
    return lines[-1] if lines and run["status"] not in OVER else f"Run {run['status']}"


def _read(connection: sa.Connection, project: str, run_id: str, now: datetime, seen: Mapping[str, int]) -> _Read:
    run = run_queries.get(connection, project, run_id)
    rows = run_queries.steps(connection, run_id)
    tasks = _tasks(connection, run_id, now, seen)
    steps = [_step(row, now) for row in rows]
    acts_now = run["position"]
    if run["status"] in {"running", "queued"} and acts_now and acts_now not in {row["step_id"] for row in rows}:
        definition = workflows_store.revision(connection, run["workflow_id"], run["version"]) or {}
        steps.append(_coming(acts_now, definition, str(run["status"])))
    # Steps are kept for a shorter time than some of what they did.
    known = {step.id for step in steps}
    steps += [_bare(name, name, "", tasks[name][0].status) for name in tasks if name not in known]
    messages = outbox.listed(connection, project, run_id=run_id)
    steps = [
        replace(
            step,
            tasks=tuple(tasks.get(step.id, ())),
            messages=tuple(one for one in messages if one.step_id == step.id and one.status in _UNSENT),
        )
        for step in steps
    ]
    told = happenings(connection, [run["delivery_id"]] if run["delivery_id"] else [])
    return _Read(run, steps, _sum(tasks), messages, run_happening(run, told))


def _tasks(
    connection: sa.Connection, run_id: str, now: datetime, seen: Mapping[str, int]
) -> dict[str, list[TaskShown]]:
    rows = task_store.of_run(connection, run_id)
    spent = task_queries.spent_so_far(connection, [row.id for row in rows])
    threads = thread_store.of_tasks(connection, [row.id for row in rows])
    outputs = {row.id: shown_outputs(output_store.of_task(connection, row.id)) for row in rows}
    shown: dict[str, list[TaskShown]] = {}
    for row in rows:
        after = seen.get(row.id, 0)
        request = None if row.id in seen else task_store.request_of(connection, row.id)
        rounds = task_store.rounds(connection, row.id, after=after)
        thread = threads.get(row.id)
        one = shown_task(row, request, rounds, spent.get(row.id), now, after=after, thread=thread)
        shown.setdefault(row.step_id, []).append(replace(one, outputs=outputs.get(row.id, ())))
    return shown


def _sum(tasks: Mapping[str, Sequence[TaskShown]]) -> Spent | None:
    """What all tasks have spent; None where there are none."""
    every = [task.spent for shown in tasks.values() for task in shown]
    return sum(every, NOTHING) if every else None


def _step(row: Mapping[str, Any], now: datetime) -> StepShown:
    lines, hidden = _within(row["log"] or (), MOST_LOG)
    return StepShown(
        id=row["step_id"],
        name=row["name"] or row["step_id"],
        type=row["type"],
        status="skipped" if skip_reason(row["result"]) else row["status"],
        started_at=row["started_at"],
        took=took(row["started_at"], row["finished_at"] or now),
        lines=lines,
        hidden_lines=hidden,
        result=_value(row["result"]),
        error=row["error"],
        note=skip_reason(row["result"]),
    )


def _coming(action_id: str, definition: Mapping[str, Any], status: str) -> StepShown:
    """The step that acts next or now: it has no row before it is over or waits."""
    actions = definition.get("actions") or ()
    action: Mapping[str, Any] = next((one for one in actions if one.get("id") == action_id), {})
    return _bare(action_id, action.get("name") or action_id, action.get("type", ""), status)


def _bare(step_id: str, name: str, kind: str, status: str) -> StepShown:
    return StepShown(step_id, name, kind, status, None, None, (), 0, None, None)


def _within(lines: Sequence[Mapping[str, str]], most: int) -> tuple[Sequence[Mapping[str, str]], int]:
    """The lines that fit into so many characters, and how many do not."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line["text"])
        if size > most:
            return lines[:number], len(lines) - number
    return lines, 0


def _value(value: Any) -> Shown | None:  # noqa: ANN401
    return None if value is None or value == {} else shown_value(value, MOST_RESULT)


def run_took(run: Mapping[str, Any], now: datetime) -> str | None:
    """How long a run took, or has taken."""
    return took(run["started_at"], run["finished_at"] or now)
