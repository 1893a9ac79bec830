"""/workflows: create, read, change, enable, disable, archive, apply, validate."""

from typing import get_args

from aiohttp import web

from loops.definition.workflow import Status
from loops.errors import DefinitionError, RequestError
from loops.store import workflows as store
from loops.workflows import Saved, shown
from server.api.call import Call, answer, instant_after, instant_key, listed
from server.api.errors import faults_shown
from server.api.items import workflow_item

_STATUSES = get_args(Status)


async def listing(call: Call) -> web.Response:
    """Workflows, the newest first, without their graphs; archived ones only with status=archived."""
    given = call.query("status", "origin_product", "name", page=True)
    page = call.page(given, 2)
    status = call.choice(given, "status", _STATUSES)
    rows = await call.services.reader.read(
        lambda connection: store.page(
            connection,
            call.project,
            limit=page.limit + 1,
            before=instant_after(page),
            status=status,
            origin_product=given.get("origin_product"),
            name=given.get("name"),
        )
    )
    return listed(rows, page.limit, lambda row: instant_key(row.created_at, row.id), workflow_item)


async def create(call: Call) -> web.Response:
    """Store the workflow in the body; `status: active` enables it at once."""
    saved = await call.services.workflows.create(call.project, await call.free_document(), call.principal.token_id)
    return answer(_whole(saved), 201)


async def read(call: Call) -> web.Response:
    """One workflow with its graph."""
    row = await call.services.workflows.get(call.project, call.piece("id"))
    return answer(shown(row))


async def replace(call: Call) -> web.Response:
    """Replace the definition. With base_version, only if that is still the current version (else 409)."""
    base = call.query("base_version").get("base_version")
    if base is not None and not (base.isascii() and base.isdigit() and len(base) < 10):
        raise RequestError(f"{base!r} is not a version", hint="the number that reading gave", path="base_version")
    saved = await call.services.workflows.update(
        call.project,
        call.piece("id"),
        await call.free_document(),
        call.principal.token_id,
        base_version=None if base is None else int(base),
    )
    return answer(_whole(saved))


async def archive(call: Call) -> web.Response:
    """Disable for good; the row stays for its runs."""
    return answer(shown(await call.services.workflows.archive(call.project, call.piece("id"))))


async def enable(call: Call) -> web.Response:
    """Let it start runs on what is accepted from now on; `warnings` are what its definition is warned about."""
    saved = await call.services.workflows.enable(call.project, call.piece("id"), call.principal.token_id)
    return answer({**shown(saved.row), "warnings": faults_shown(saved.warnings)})


async def disable(call: Call) -> web.Response:
    """Start no more runs; runs that have begun go on to their end."""
    return answer(shown(await call.services.workflows.disable(call.project, call.piece("id"))))


async def apply(call: Call) -> web.Response:
    """Make the workflow of the document's name be what the document says."""
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
