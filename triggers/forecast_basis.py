"""What a forecast reckons a run by: the tasks that it creates, and what comparable ones cost and took."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from loops.definition import CompiledWorkflow
from loops.definition.schema.actions import FunctionConfig
from loops.definition.stored import stored_actions
from loops.store import forecasts
from loops.store.forecasts import TaskDone

TASK = "template-posthog-create-task"
COMPARED = 200
_ASSUMED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """A step that creates a task: with which model (empty: the installation's), and whether on a repository."""

    model: str
    repository: bool
    parallel: int


@dataclass(frozen=True, slots=True)
class Basis:
    """What one task costs in USD (None: unknown) and how long it lasts, each with what that is based on; and its
    tokens."""

    cost: float | None
    cost_words: str
    lasts: timedelta
    lasts_words: str
    tokens: int = 0


def task_steps(compiled: CompiledWorkflow) -> list[TaskStep]:
    """The steps of a workflow that create tasks."""
    found = []
    for action in compiled.workflow.actions:
        config = action.config
        if isinstance(config, FunctionConfig) and config.template_id == TASK:
            given = {name: one.value for name, one in config.inputs.items()}
            found.append(_step(given))
    return found


def _step(inputs: Mapping[str, Any]) -> TaskStep:
    choice, parallel = inputs.get("model"), inputs.get("max_parallel_tasks")
    model = choice.get("model", "") if isinstance(choice, Mapping) else choice or ""
    return TaskStep(str(model), bool(inputs.get("repository")), parallel if isinstance(parallel, int) else 5)


def basis_of(
    connection: sa.Connection, project_id: str, workflow_id: str, steps: Sequence[TaskStep], model: str
) -> Basis:
    """What tasks of the first of these steps would be like; `model` is the installation's."""
    if not steps:
        return Basis(0.0, "it creates no task", _ASSUMED, f"assumed: {_minutes(_ASSUMED)}, as it creates no task")
    done = forecasts.done(connection, project_id, COMPARED)
    asked = {(one.workflow_id, one.version) for one in done}
    known = forecasts.definitions(connection, sorted(asked))
    wanted = steps[0].model or model
    alike = [
        one for one in done if _name(one.model) == _name(wanted) and _repository(one, known) == steps[0].repository
    ]
    where = "on a repository" if steps[0].repository else "without a repository"
    pools = (
        (alike, f"with {wanted or 'the same model'}, {where}"),
        ([one for one in done if one.workflow_id == workflow_id], "of this workflow"),
        (done, "of this project"),
    )
    return _basis(pools)


def _basis(pools: "Sequence[tuple[Sequence[TaskDone], str]]") -> Basis:
    cost, cost_words = None, "unknown: no task has been done yet whose cost is known"
    tokens = 0
    lasts, lasts_words = _ASSUMED, f"assumed: {_minutes(_ASSUMED)}, as no task has been done yet"
    for pool, words in reversed(pools):
        costs = [one.cost for one in pool if one.cost is not None]
        if costs:
            cost, cost_words = statistics.median(costs), _based(len(costs), words)
        if pool:
            lasts = timedelta(seconds=statistics.median(one.seconds for one in pool))
            lasts_words = _based(len(pool), words)
            tokens = int(statistics.median(one.tokens for one in pool))
    return Basis(cost, cost_words, lasts, lasts_words, tokens)


def _based(count: int, words: str) -> str:
    return f"the median of {count} task{'' if count == 1 else 's'} {words}"


def _name(model: str) -> str:
    return model.partition(":")[2] or model


def _repository(task: TaskDone, known: Mapping[tuple[str, int], Mapping[str, Any]]) -> bool:
    definition = known.get((task.workflow_id, task.version), {})
    action = next((one for one in stored_actions(definition) if one.get("id") == task.step_id), {})
    config = action.get("config")
    inputs = config.get("inputs") if isinstance(config, Mapping) else None
    given = inputs.get("repository") if isinstance(inputs, Mapping) else None
    return bool(given.get("value")) if isinstance(given, Mapping) else False


def _minutes(span: timedelta) -> str:
    return f"{int(span.total_seconds() // 60)} min"
