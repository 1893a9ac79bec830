"""/integrations: stored connections. Secrets go in and never come out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.connections.kinds import KINDS, check_changes, check_name, check_settings, kind_named
from loops.connections.removal import remove
from loops.errors import NotFound, RequestError, StoreError
from loops.event import JsonValue
from loops.store import connections as store
from loops.store.connections import ConnectionRow
from server.api.call import Call, answer, listed, number_after
from server.checks.check import told
from server.checks.connection import connection_checks, look_up, unasked
from server.services import Services


async def listing(call: Call) -> web.Response:
    """Connections in the order they were made; of one kind. `secrets` names those that are set."""
    given = call.query("kind", page=True)
    page = call.page(given, 1)
    kind = call.choice(given, "kind", tuple(KINDS))
    rows = await call.services.reader.read(lambda connection: store.listed(connection, call.project, kind))
    after = number_after(page)
    if after is not None:
        rows = [row for row in rows if row.id > after]
    return listed(rows, page.limit, lambda row: (str(row.id),), lambda row: _item(call.services, row))


async def create(call: Call) -> web.Response:
    """Store a connection: kind, name and settings. `warnings` say what keeps this service from using it."""
    body = await call.document("kind", "name", "settings")
    kind = kind_named(body.get("kind"))
    if kind.kept:
        raise RequestError(
            f"a {kind.name} connection is made by Loops itself, for each workflow whose trigger is a {kind.name}",
            hint="save the workflow; loops webhook WORKFLOW shows its address",
            path="kind",
        )
    name = check_name(body.get("name"))
    checked = check_settings(kind, _settings(body))
    services = call.services
    sealed = services.box.seal(checked.secrets)

    def put(connection: sa.Connection) -> ConnectionRow | None:
        new = store.insert(
            connection,
            project_id=call.project,
            kind=kind.name,
            name=name,
            config=checked.config,
            secrets=sealed,
            now=services.clock.now(),
        )
        return store.get(connection, new)

    row = await services.writer.run(put)
    if row is None:
        raise StoreError("the connection that was just stored is gone")
    return answer({**_item(services, row), "warnings": _warnings(services, row)}, 201)


async def update(call: Call) -> web.Response:
    """Change some settings of a connection: null takes one away, those that are not named stay."""
    number, services = call.number("id"), call.services
    given = _settings(await call.document("settings"))

    def put(connection: sa.Connection) -> ConnectionRow:
        row = store.held(connection, call.project, number)
        kind, opened = kind_named(row.kind), services.box.open(row.secrets)
        stored = {**row.config, **{name: str(value) for name, value in opened.items()}}
        checked = check_changes(kind, {name: stored[name] for name in stored.keys() - kind.kept}, given)
        config = {name: row.config[name] for name in row.config.keys() & kind.kept} | dict(checked.config)
        own = {name: opened[name] for name in opened.keys() & kind.kept}
        sealed, now = services.box.seal(own | dict(checked.secrets)), services.clock.now()
        store.change(connection, number, config=config, secrets=sealed, now=now)
        return dataclasses.replace(row, config=config, secrets=sealed, updated_at=now)

    row = await services.writer.run(put)
    return answer({**_item(services, row), "warnings": _warnings(services, row)})


async def check(call: Call) -> web.Response:
    """Ask the service behind a connection: whether its credentials work, what they lack that active loops need, and
    whether the app is in the channels that they post to. A mail server is reached and signed in to; nothing is sent.
    Of an MCP server it tells which tools tasks would be offered."""
    number, services = call.number("id"), call.services
    row = await services.reader.read(lambda connection: store.get(connection, number))
    if row is None or row.project_id != call.project:
        raise NotFound(f"there is no connection {number}", hint="see: loops integrations list")
    opened = await services.book.get(number, row.kind)
    looked = await services.reader.read(lambda connection: look_up(connection, row, opened))
    checks = await connection_checks(looked, services.box, services.public_url(), services.settings.mcp_commands)
    return answer({"id": str(number), **told(checks or [unasked(row)])})


async def rotate(call: Call) -> web.Response:
    """Seal the secrets of every connection, of all projects, with the first secret key; `resealed` says how many were,
    `unreadable` how many no key opens."""
    await call.document()
    box = call.services.box
    resealed, unreadable = await call.services.writer.run(lambda connection: store.reseal(connection, box.reseal))
    return answer({"resealed": resealed, "unreadable": unreadable})


async def delete(call: Call) -> web.Response:
    """Delete a connection; its hook answers 404 from then on. A webhook's is made anew when its workflow is saved. One
    that workflows, or the alerts of failures, need is refused with their names (409), unless `force` is true."""
    number = call.number("id")
    force = call.choice(call.query("force"), "force", ("true", "false")) == "true"
    await call.services.writer.run(lambda connection: remove(connection, call.project, number, force=force))
    return web.Response(status=204)


def _settings(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    settings = body.get("settings", {})
    if not isinstance(settings, dict):
        raise RequestError("settings are no object", hint='as {"webhook_secret": "…"}', path="settings")
    return settings


def _warnings(services: Services, row: ConnectionRow) -> list[dict[str, str]]:
    """What keeps a connection that may be stored from being used by this service as it is set up now."""
    if row.kind == "smtp" and row.config.get("security") == "none" and row.config.get("username"):
        message = "the password would travel in clear text, so nothing is sent over the connection"
        return [{"message": message, "hint": "set security to starttls or tls, or take username and password away"}]
    commands, command = services.settings.mcp_commands, row.config.get("command")
    if row.kind != "mcp" or command is None or command in commands:
        return []
    hint = f"those set are: {', '.join(sorted(commands))}" if commands else "the operator sets it in LOOPS_MCP_COMMANDS"
    return [{"message": f"there is no command {command!r} here, so no task can use the connection", "hint": hint}]


def _item(services: Services, row: ConnectionRow) -> dict[str, Any]:
    kind = KINDS.get(row.kind)
    receives = kind is not None and kind.receives
    return {
        "id": str(row.id),
        "kind": row.kind,
        "name": row.name,
        "config": {name: value for name, value in row.config.items() if name != "trigger"},
        "secrets": _names_of_secrets(services, row, frozenset() if kind is None else kind.kept),
        "hook_url": f"{services.public_url()}/hooks/{row.kind}/{row.id}" if receives else None,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _names_of_secrets(services: Services, row: ConnectionRow, kept: frozenset[str]) -> list[str] | None:
    """Which secrets are set; None where they cannot be opened with the keys of this service."""
    try:
        return sorted(services.box.open(row.secrets).keys() - kept)
    except StoreError:
        return None
