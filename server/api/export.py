"""A whole run as one JSON document: what started it, what it did, and every round of its agents.

The transcript of a task is that of loops/agent/transcript.py: with it, the event and the fields that were asked for, a
recorded agent can be replayed without a model.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.connections.secrets import Mask, masked_json
from loops.errors import StoreError
from loops.event import JsonValue
from loops.packed import unpack
from loops.store import connections, outbox, run_queries, task_queries
from loops.store import outputs as output_store
from loops.store import tasks as task_store
from loops.store import threads as thread_store
from loops.store import workflows as workflow_store
from loops.store.connections import ConnectionRow
from loops.store.database import current_schema
from loops.store.outbox import OutboxRow
from loops.store.tasks import TaskRow
from loops.threads import off_loop
from server.api.items import run_item, step_item, task_item
from server.api.outputs import output_item
from server.release import release
from server.services import Services

FORMAT = "loops.run/1"
_PAGE = 200


@dataclass(frozen=True, slots=True)
class _Found:
    """What one read of the database gave."""

    document: dict[str, Any]
    event: bytes | None
    senders: Sequence[ConnectionRow]


async def exported(services: Services, project_id: str, run_id: str) -> dict[str, Any]:
    """The document of a run; secrets of the project and of this process are masked in it. Raises NotFound."""
    found = await services.reader.read(lambda connection: _read(connection, project_id, run_id))
    return await off_loop(lambda: _masked(services, found))


def _read(connection: sa.Connection, project_id: str, run_id: str) -> _Found:
    run = run_queries.get(connection, project_id, run_id)
    definition = workflow_store.revision(connection, run["workflow_id"], run["version"])
    document = {
        "format": FORMAT,
        "versions": {**_versions(), "schema": current_schema(connection)},
        "run": {**run_item(run), "replay": run["replay"], "variables": run["state"].get("variables", {})},
        "delivery": run["delivery_id"],
        "definition": definition,
        "steps": [step_item(step) for step in run_queries.steps(connection, run_id)],
        "tasks": [_task(connection, task) for task in task_store.of_run(connection, run_id)],
        "messages": [_message(row) for row in _messages(connection, project_id, run_id)],
    }
    event = task_queries.event_of(connection, run)
    return _Found(document, event, connections.listed(connection, project_id))


def _versions() -> dict[str, str | None]:
    return {"loops": release(), "python": platform.python_version()}


def _task(connection: sa.Connection, task: TaskRow) -> dict[str, Any]:
    request = dict(task_store.request_of(connection, task.id))
    system, opening = request.pop("system", ""), request.pop("opening", "")
    rounds = task_store.rounds(connection, task.id)
    outputs = [output_item(one, len(one.patch or b"")) for one in output_store.of_task(connection, task.id)]
    return {
        **task_item(task, thread=thread_store.of_task(connection, task.id)),
        "request": request,
        "outputs": outputs,
        "transcript": {"system": system, "opening": opening, "rounds": rounds},
        "result": task.result,
    }


def _messages(connection: sa.Connection, project_id: str, run_id: str) -> list[OutboxRow]:
    """Every message of the run, the oldest first."""
    found: list[OutboxRow] = []
    while True:
        before = found[-1].id if found else None
        page = outbox.listed(connection, project_id, run_id=run_id, before=before, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found[::-1]


def _message(row: OutboxRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "step": row.step_id,
        "kind": row.kind,
        "connection": None if row.connection_id is None else str(row.connection_id),
        "status": row.status,
        "code": row.code,
        "reason": row.reason,
        "message": row.message,
        "refs": row.refs,
        "missed": row.missed,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _masked(services: Services, found: _Found) -> dict[str, Any]:
    opened = [secret for row in found.senders for secret in _secrets(services, row)]
    mask = Mask([*services.settings.secret_values, *opened])
    event: JsonValue = unpack(found.event)
    return {name: masked_json(value, mask) for name, value in {**found.document, "event": event}.items()}


def _secrets(services: Services, row: ConnectionRow) -> list[str]:
    try:
        return [str(value) for value in services.box.open(row.secrets).values()]
    except StoreError:  # nobody can open it, so nothing that it holds was used since
        return []
