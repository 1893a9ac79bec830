"""Services whose tasks are worked on by scripts, and the workflows that ask for tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loops.agent.models.scripted import Script, ScriptedCall, ScriptedTurn
from loops.store import tasks as task_store
from loops.store.tasks import TaskRow
from server.app import Wiring
from tests.integration.running import Running, eventually

REPORT = "The export stops at 10,000 rows since its query has a limit."


def scripted(make: Callable[[], Script], wiring: Wiring | None = None) -> Wiring:
    """Wiring whose model says what the script says."""
    return replace(
        wiring or Wiring(),
        models=lambda models: replace(models, default="scripted:test", scripts={"test": make}),
    )


def calls(name: str, arguments: Mapping[str, Any] | str | None = None, text: str = "", **more: Any) -> ScriptedTurn:
    return ScriptedTurn(text, (ScriptedCall(name, arguments or {}),), **more)


def ends(message: str = REPORT, **arguments: Any) -> ScriptedTurn:
    return calls("finalize", {"final_message": message, **arguments})


def task_action(name: str = "task", prompt: str = "Report what the issue is about.", **more: Any) -> dict[str, Any]:
    """A create-task step; inputs beside the prompt go into `inputs`, everything else into the action."""
    inputs = {"prompt": {"value": prompt}, **{key: {"value": value} for key, value in more.pop("inputs", {}).items()}}
    config = {"template_id": "template-posthog-create-task", "inputs": inputs}
    return {"id": name, "name": name, "type": "function", "config": config, **more}


async def tasks_of(service: Running, run_id: str) -> Sequence[TaskRow]:
    return await service.read(lambda connection: task_store.of_run(connection, run_id))


async def task_of(service: Running, run_id: str) -> TaskRow:
    """The one task of a run, once it is there."""
    found = await eventually(lambda: tasks_of(service, run_id), lambda rows: rows)
    assert len(found) == 1, found
    return found[0]


async def rounds_of(service: Running, task_id: str) -> Sequence[Mapping[str, Any]]:
    return await service.read(lambda connection: task_store.rounds(connection, task_id))


async def request_of(service: Running, task_id: str) -> Mapping[str, Any]:
    return await service.read(lambda connection: task_store.request_of(connection, task_id))
