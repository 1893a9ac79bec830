"""/workflows: create, read, change, enable, disable, archive, apply, validate."""

from collections.abc import Mapping
from typing import cast, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.changes import Base, Retired, Running, Saved, shown
from loops.definition.workflow import Status
from loops.errors import DefinitionError, RequestError
from loops.event import JsonValue
from loops.store import schedules as schedules_store
from loops.store import workflows as store
from loops.store.schedules import ScheduleRow
from loops.store.workflows import WorkflowRow
from server.api.call import Call, answer, instant, instant_after, instant_key, listed
from server.api.errors import faults_shown
from server.api.items import schedule_item, workflow_item

_STATUSES = get_args(Status)
_RUNNING = get_args(Running)
_MOST_DIGITS = 9


async def listing(call: Call) -> web.Response:
    """Workflows, the newest first, without their graphs; archived ones only with status=archived. `search` finds words
    of a name or description, `space` (an id) those that list their runs there."""
    given = call.query("status", "origin_product", "name", "search", "space", page=True)
    page = call.page(given, 2)
    rows = await call.services.workflows.page(
        call.project,
        limit=page.limit + 1,
        before=instant_after(page),
        status=call.choice(given, "status", _STATUSES),
        origin_product=given.get("origin_product"),
        name=given.get("name"),
        search=given.get("search"),
        space=given.get("space"),
    )
    return listed(rows, page.limit, lambda row: instant_key(row.created_at, row.id), workflow_item)


async def create(call: Call) -> web.Response:
    """Store the workflow in the body; `status: active` enables it at once."""
    saved = await call.services.workflows.create(call.project, await call.free_document(), call.principal.token_id)
    return answer(_whole(saved), 201)


async def read(call: Call) -> web.Response:
    """One workflow with its graph and its schedules."""
    workflow = call.piece("id")

    def look(connection: sa.Connection) -> tuple[WorkflowRow, list[ScheduleRow]]:
        return store.get(connection, call.project, workflow), schedules_store.of_workflow(connection, workflow)

    row, found = await call.services.reader.read(look)
    return answer({**shown(row), "schedules": [schedule_item(one, row) for one in found]})


async def replace(call: Call) -> web.Response:
    """Replace the definition. With base_version or base_updated_at, only if it is still that (else 409)."""
    base = _base(call.query("base_version", "base_updated_at"))
    workflow, document = call.piece("id"), await call.free_document()
    saved = await call.services.workflows.update(call.project, workflow, document, call.principal.token_id, base=base)
    return answer(_whole(saved))


async def patch(call: Call) -> web.Response:
    """Set keys of the definition that are no part of its graph: name, description, exit_condition, conversion,
    trigger_masking, trigger_rate_limit, trigger_debounce, trigger_overlap, variables. The others stay. With
    base_version or base_updated_at as for PUT."""
    base = _base(call.query("base_version", "base_updated_at"))
    workflow, changes = call.piece("id"), await call.free_document()
    saved = await call.services.workflows.patch(call.project, workflow, changes, call.principal.token_id, base=base)
    return answer(_whole(saved))


async def patch_graph(call: Call) -> web.Response:
    """Change actions and edges by operations, all or none (docs/reference/workflow.md#operations-on-the-graph). With
    base_updated_at or base_version, only if the workflow is still that (else 409)."""
    body = await call.document("operations", "base_updated_at", "base_version")
    workflow, base = call.piece("id"), _base(body)
    saved = await call.services.workflows.patch_graph(
        call.project, workflow, body.get("operations"), call.principal.token_id, base=base
    )
    return answer(_whole(saved))


def _base(given: Mapping[str, JsonValue]) -> Base:
    version, at = given.get("base_version"), given.get("base_updated_at")
    text = str(version)
    if version is not None and not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise RequestError(f"{text[:60]!r} is not a version", hint="the number that reading gave", path="base_version")
    return Base(None if version is None else int(text), None if at is None else instant(at, "base_updated_at"))


async def archive(call: Call) -> web.Response:
    """Disable for good; the row stays for its runs. `running` in the query as for disable."""
    running = _running(call.query("running").get("running"))
    retired = await call.services.workflows.archive(call.project, call.piece("id"), running=running)
    return _retired(retired)


async def enable(call: Call) -> web.Response:
    """Let it start runs on what is accepted from now on; `warnings` are what its definition is warned about."""
    saved = await call.services.workflows.enable(call.project, call.piece("id"), call.principal.token_id)
    return answer({**shown(saved.row), "warnings": faults_shown(saved.warnings)})


async def disable(call: Call) -> web.Response:
    """Start no more runs. Where some are under way, `running` says what becomes of them: `drain` lets them go on to
    their end, `cancel` cancels them (without it: 409, which tells what runs). `runs` counts them; 202 while one that
    was cancelled still acts."""
    body = await call.document("running")
    retired = await call.services.workflows.disable(
        call.project, call.piece("id"), running=_running(body.get("running"))
    )
    return _retired(retired)


def _running(given: JsonValue) -> Running | None:
    if given is not None and given not in _RUNNING:
        hint = f"one of {', '.join(_RUNNING)}"
        raise RequestError("running does not say what becomes of the runs under way", hint=hint, path="running")
    return cast("Running | None", given)


def _retired(retired: Retired) -> web.Response:
    runs = {"draining": retired.draining, "cancelled": retired.cancelled, "stopping": len(retired.stopping)}
    return answer({**shown(retired.row), "runs": runs}, 202 if retired.stopping else 200)


async def apply(call: Call) -> web.Response:
    """Make the workflow of the document's name be what the document says; also its schedules, where it has that key."""
    body = await call.document("document", "enable")
    enable_too = body.get("enable", False)
    if not isinstance(enable_too, bool):
        raise RequestError("enable is neither true nor false", path="enable")
    if "document" not in body:
        raise RequestError("document is missing", hint="the workflow, as an object", path="document")
    saved = await call.services.workflows.apply(
        call.project, body["document"], call.principal.token_id, enable=enable_too
    )
    row = saved.row
    told = {"id": row.id, "name": row.name, "status": row.status, "version": row.version, "change": saved.change}
    return answer({**told, "enabled": saved.enabled, "warnings": faults_shown(saved.warnings)})


async def validate(call: Call) -> web.Response:
    """Every fault and warning of a document, without storing it; also of connections that its steps name."""
    body = await call.document("document")
    if "document" not in body:
        raise RequestError("document is missing", hint="the workflow, as an object", path="document")
    try:
        warnings = await call.services.workflows.check(call.project, body["document"])
    except DefinitionError as error:
        return answer({"valid": False, "faults": faults_shown(error.faults), "warnings": []})
    return answer({"valid": True, "faults": [], "warnings": faults_shown(warnings)})


def _whole(saved: Saved) -> dict[str, object]:
    return {**shown(saved.row), "change": saved.change, "warnings": faults_shown(saved.warnings)}
