"""/tasks: AI tasks, what each was told, and every round of its agent."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.agent.transcript import Round, Transcript, usage_json
from loops.errors import Conflict
from loops.store import outputs as output_store
from loops.store import task_queries
from loops.store import tasks as store
from loops.store import threads as thread_store
from loops.store.tasks import TaskRow
from loops.tasks.result import TaskStatus
from server.api.call import Call, answer, listed
from server.api.items import task_item
from server.api.outputs import output_item

# A skipped task was never created.
_STATUSES = ("queued", "running", *(one for one in get_args(TaskStatus) if one != "skipped"))


async def listing(call: Call) -> web.Response:
    """Tasks, the newest first; of one status or workflow."""
    given = call.query("status", "workflow", page=True)
    page = call.page(given, 1)
    status = call.choice(given, "status", _STATUSES)

    def look(connection: sa.Connection) -> list[dict[str, Any]]:
        rows = store.page(
            connection,
            call.project,
            limit=page.limit + 1,
            before=None if page.after is None else page.after[0],
            status=status,
            workflow_id=given.get("workflow"),
        )
        return task_items(connection, rows)

    items = await call.services.reader.read(look)
    return listed(items, page.limit, lambda item: (item["id"],), lambda item: item)


def task_items(connection: sa.Connection, rows: Sequence[TaskRow]) -> list[dict[str, Any]]:
    """Tasks as the API shows them; what one that is not over has spent is summed up from its rounds."""
    spent = task_queries.spent_so_far(connection, [row.id for row in rows if not row.over])
    threads = thread_store.of_tasks(connection, [row.id for row in rows])
    return [task_item(row, spent.get(row.id), threads.get(row.id)) for row in rows]


async def read(call: Call) -> web.Response:
    """One task with its `result`, which is null until it has ended, and its `outputs`: what it asked to have written,
    what became of that and why, with the patch."""
    task_id = call.piece("id")

    def look(connection: sa.Connection) -> dict[str, Any]:
        row = store.get(connection, task_id, call.project)
        outputs = [output_item(one) for one in output_store.of_task(connection, task_id)]
        return {**task_items(connection, [row])[0], "result": row.result, "outputs": outputs}

    return answer(await call.services.reader.read(look))


async def trace(call: Call) -> web.Response:
    """What the agent was told (`request`), its `rounds`, its `result`, and what all of it used and cost."""
    task_id = call.piece("id")

    def look(connection: sa.Connection) -> dict[str, Any]:
        row = store.get(connection, task_id, call.project)
        rounds = store.rounds(connection, task_id)
        return {
            "task": task_items(connection, [row])[0],
            "request": store.request_of(connection, task_id),
            "rounds": rounds,
            "result": row.result,
            **_spent(rounds),
        }

    return answer(await call.services.reader.read(look))


def _spent(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    transcript = Transcript("", "", tuple(Round.from_json(one) for one in rounds))
    cost = transcript.cost
    return {"usage": usage_json(transcript.usage), "cost": None if cost is None else float(cost)}


async def cancel(call: Call) -> web.Response:
    """Cancel the run that waits for the task, and the task with it; of one that is over, what it still does in its
    Slack thread. 202 while it is still at work."""
    task_id = call.piece("id")
    await call.document()
    task = await _task(call, task_id)
    if not task.over:
        await call.services.runs.cancel(call.project, task.run_id)
        item = await _item(call, task_id)
        return answer(item, 200 if item["finished_at"] else 202)
    if not await call.services.reader.read(lambda connection: thread_store.is_live(connection, task_id)):
        raise Conflict(f"task {task_id} is {task.status}; only one that is under way can be cancelled")
    status = await call.services.runs.close_threads(call.project, task.run_id)
    return answer(await _item(call, task_id), 202 if status == "running" else 200)


async def _item(call: Call, task_id: str) -> dict[str, Any]:
    def look(connection: sa.Connection) -> dict[str, Any]:
        return task_items(connection, [store.get(connection, task_id, call.project)])[0]

    return await call.services.reader.read(look)


async def _task(call: Call, task_id: str) -> TaskRow:
    return await call.services.reader.read(lambda connection: store.get(connection, task_id, call.project))
