"""/alerts: which loops fail now, and where the project wants to hear of it."""

from collections.abc import Mapping
from typing import Any, get_args

import sqlalchemy as sa
from aiohttp import web

from loops.connections.named import NAMES, choices
from loops.definition.inputs.base import connection_number
from loops.errors import RequestError, StepFailed
from loops.event import JsonValue
from loops.runs.alert_words import AlertTarget, Kind, read_target, words
from loops.runs.alerts import Recovered
from loops.store import alerts as store
from loops.store import connections
from loops.store.alerts import FailingWorkflow
from notify.compose import message_of
from notify.message import CONNECTION_KIND
from server.api.call import Call, answer

_KINDS: tuple[str, ...] = get_args(Kind)


async def read(call: Call) -> web.Response:
    """The loops whose last run failed, the latest failure first, and `target`, where the project hears of failures:
    null where each loop tells them to whom it tells its result."""

    def look(connection: sa.Connection) -> dict[str, Any]:
        failing = [_item(one) for one in store.failing(connection, call.project)]
        return {"target": _shown(store.target(connection, call.project)), "failing": failing}

    return answer(await call.services.reader.read(look))


async def replace(call: Call) -> web.Response:
    """Say where the project hears of failures: `target` is null, {"kind": "page"}, or {"kind": "slack" or "email",
    "connection", "to"} with a channel or an address."""
    body = await call.document("target")
    if "target" not in body:
        raise RequestError("target is missing", hint='null, or as {"kind": "slack", "connection": 1, "to": "C0123"}')
    target = None if body["target"] is None else _target(body["target"])

    def put(connection: sa.Connection) -> None:
        if target is not None and target.kind != "page":
            _require(connection, call.project, target)
        store.set_target(connection, call.project, None if target is None else target.as_json())

    await call.services.writer.run(put)
    return answer({"target": None if target is None else _shown(target.as_json())})


def _target(given: JsonValue) -> AlertTarget:
    if not isinstance(given, dict) or given.get("kind") not in _KINDS:
        raise RequestError("target has no kind", hint=f"one of {', '.join(_KINDS)}", path="target.kind")
    stray = [key for key in given if key not in {"kind", "connection", "to"}]
    if stray:
        raise RequestError(f"{stray[0][:60]!r} is no key of a target", hint="kind, connection, to", path="target")
    if given["kind"] == "page":
        return AlertTarget("page")
    to = given.get("to")
    if not isinstance(to, str) or not to.strip():
        raise RequestError("to is missing", hint="a channel, as C0123456789, or an address", path="target.to")
    kind: Kind = "slack" if given["kind"] == "slack" else "email"
    target = AlertTarget(kind, connection_number(given.get("connection")), to.split("|")[0].strip())
    try:
        message_of(kind, target.inputs(words("x", Recovered(1), "x")), "x")
    except StepFailed as error:
        raise RequestError(error.message, hint=error.hint, path="target.to") from error
    return target


def _require(connection: sa.Connection, project: str, target: AlertTarget) -> None:
    """Raises RequestError unless the target's connection is one of the project, of its kind."""
    kind = CONNECTION_KIND[target.kind]
    there = connections.listed(connection, project, kind)
    if not any(one.id == target.connection for one in there):
        hint = choices(kind, there) if there else f"make one with: loops integrations create {kind} --name …"
        raise RequestError(f"connection is none of {NAMES[kind]} here", hint=hint, path="target.connection")


def _shown(stored: JsonValue) -> Mapping[str, Any] | None:
    target = read_target(stored)
    if target is None or target.kind == "page":
        return None if target is None else {"kind": "page"}
    return {"kind": target.kind, "connection": str(target.connection), "to": target.to}


def _item(one: FailingWorkflow) -> dict[str, Any]:
    known = one.known
    return {
        "workflow": one.workflow_id,
        "workflow_name": one.name,
        "failures": known.failures,
        "untold": known.untold,
        "run": known.run_id,
        "reason": known.reason,
        "failed_at": None if known.failed_at is None else known.failed_at.isoformat(),
        "told_at": None if known.told_at is None else known.told_at.isoformat(),
    }
