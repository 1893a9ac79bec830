"""The end of a task: stored in one transaction with the wake of the run that waits for it."""

from datetime import datetime
from typing import TYPE_CHECKING

from loops.store import run_requests
from loops.store import tasks as store
from loops.store.tasks import TaskEnd
from loops.tasks.ends import died
from loops.tasks.thread.live import TaskThreads

if TYPE_CHECKING:
    from sqlalchemy import Connection


def end_task(
    connection: "Connection", run_id: str, step_id: str, task_id: str, end: TaskEnd, now: datetime, owner: str
) -> int | None:
    """Store the end of a task and wake its run: the seq to make due after the commit, None where none waits.

    Raises RunFenced.
    """
    run_requests.hold(connection, run_id)
    store.finish(connection, task_id, owner, end, now)
    if end.cost:
        run_requests.add_cost(connection, run_id, end.cost)
    return run_requests.wake_waiting(connection, run_id, step_id, {"task": task_id}, now)


def give_up_task(
    connection: "Connection", task_id: str, seq: int, now: datetime, threads: TaskThreads | None = None
) -> tuple[str, int] | None:
    """End a task that cannot go on: the segment to make due after the commit, None where there is none."""
    task = store.get(connection, task_id)
    run_requests.hold(connection, task.run_id)
    usage = (task.rounds, task.input_tokens, task.output_tokens, task.cost)
    end = died(task_id, *usage)
    if not store.give_up(connection, task_id, seq, end, now):
        return None
    if end.cost:
        run_requests.add_cost(connection, task.run_id, end.cost)
    if threads is not None:
        threads.task_over(connection, task_id, end, rounds=False)
    woken = run_requests.wake_waiting(connection, task.run_id, task.step_id, {"task": task_id}, now)
    return None if woken is None else (task.run_id, woken)
