"""What `loops doctor` looks at. It changes nothing, and makes nothing that is missing."""

import asyncio
import platform
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from config.secret_key import FILE_NAME
from config.settings import Settings, ensure_secret_key, read_settings
from loops.connections.book import OpenConnection
from loops.connections.secrets import SecretBox
from loops.errors import LoopsError, StoreError
from loops.store import database
from loops.store.connections import ConnectionRow, of_kind
from loops.store.tables import connections, workflows
from server.checks.check import Check
from server.checks.connection import Looked, connection_checks, look_up
from server.checks.model import lacking_check, model_check
from server.checks.runner import runner_checks
from server.cli.client import Client
from server.cli.reach import running_socket
from server.quotas import needs_price
from server.release import release
from server.sandbox import sandbox_check
from server.working import models_of

_ASKED = ("slack", "smtp", "github", "mcp")
_FIRST = "loops serve makes it; if a service was here, run this in its folder, or set LOOPS_DATA_DIR"


def examine(config: str | None, environ: Mapping[str, str]) -> Iterator[Check]:
    """Every check; those that need what an earlier one found missing are left out."""
    yield _versions()
    found = read_settings(None if config is None else Path(config), environ)
    if isinstance(found, tuple):
        yield from (Check("settings", "failed", f"{one.setting}: {one.message}", one.hint) for one in found)
        return
    yield Check("settings", "ok", "every setting can be used")
    if found.model is not None:
        yield model_check(models_of(found), needs_price=needs_price(found))
    yield from asyncio.run(runner_checks(found.runners, found.sandbox))
    yield from _data_folder(found.data_dir)
    yield from _database(found)
    service, told = _service(found)
    yield asyncio.run(sandbox_check(found, told))
    yield service


def _versions() -> Check:
    parts = [
        f"loops {release() or 'from a source tree'}",
        f"Python {platform.python_version()}",
        f"DBOS {version('dbos')}",
        f"SQLite {sqlite3.sqlite_version}",
    ]
    return Check("versions", "ok", ", ".join(parts))


def _data_folder(folder: Path) -> Iterator[Check]:
    if not folder.exists():
        yield Check("data folder", "warning", f"{folder} is not there yet", _FIRST)
        return
    for path, name in ((folder, "data folder"), (folder / FILE_NAME, "secret key file")):
        if path.exists():
            yield _private(path, name)


def _private(path: Path, name: str) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        mend = "go-rwx" if path.is_dir() else "600"
        return Check(name, "failed", f"{path} is open to other users (mode {mode:o})", f"chmod {mend} {path}")
    return Check(name, "ok", f"{path}, mode {mode:o}")


def _database(settings: Settings) -> Iterator[Check]:
    if database.is_sqlite(settings.database_url):
        file = Path(sa.make_url(settings.database_url).database or "")
        if not file.exists():
            yield Check("database", "warning", f"{file} is not there yet", _FIRST)
            return
    try:
        with database.looking_into(settings.database_url) as connection:
            checks = list(_contents(connection, settings))
            readable = (checks[-1].name, checks[-1].state) == ("stored secrets", "ok")
            box = _box(settings) if readable else None
            found = _connections(connection, box) if isinstance(box, SecretBox) else []
            if settings.model is None and checks[0].state == "ok":
                checks.append(lacking_check(models_of(settings), _active(connection)))
    except LoopsError as error:
        yield _failed("database", error)
        return
    yield from checks
    if found and isinstance(box, SecretBox):
        yield from asyncio.run(_asked(found, box, settings))


async def _asked(found: Sequence[Looked], box: SecretBox, settings: Settings) -> list[Check]:
    """What the outside says of all connections, asked at once."""
    url, commands = settings.public_url, settings.mcp_commands
    told = await asyncio.gather(*(connection_checks(one, box, url, commands) for one in found))
    return [check for checks in told for check in checks]


def _contents(connection: sa.Connection, settings: Settings) -> Iterator[Check]:
    current, wanted = database.current_schema(connection), database.wanted_schema()
    where = sa.make_url(settings.database_url).render_as_string()
    if current is None:
        yield Check(
            "database", "warning", f"{where} has no tables yet", "the first start, or loops migrate, makes them"
        )
        return
    if current != wanted:
        message = f"{where} has schema {current}, this release wants {wanted}"
        yield Check(
            "database", "failed", message, "loops migrate brings an older one up; an older release cannot go back"
        )
        return
    yield Check("database", "ok", f"{where}, schema {current}")
    yield _engine_tables(connection)
    yield _secrets(connection, settings)


def _engine_tables(connection: sa.Connection) -> Check:
    schema = "dbos" if connection.dialect.name == "postgresql" else None
    if sa.inspect(connection).has_table("workflow_status", schema=schema):
        return Check("engine tables", "ok", "they are there")
    return Check("engine tables", "failed", "they are missing", "loops migrate makes them")


def _secrets(connection: sa.Connection, settings: Settings) -> Check:
    rows = connection.execute(sa.select(connections.c.kind, connections.c.name, connections.c.secrets)).all()
    if not rows:
        return Check("stored secrets", "ok", "none are stored")
    box = _box(settings)
    if isinstance(box, Check):
        return box
    closed = [f"{kind} {name}" for kind, name, sealed in rows if not _opens(box, sealed)]
    if closed:
        hint = "put the key that they were stored with into LOOPS_SECRET_KEY, behind the new one"
        return Check("stored secrets", "failed", f"cannot be opened with this key: {', '.join(closed)}", hint)
    return Check("stored secrets", "ok", f"all {len(rows)} can be opened")


def _active(connection: sa.Connection) -> list[Mapping[str, Any]]:
    """The definitions of the active loops of every project."""
    return [*connection.execute(sa.select(workflows.c.definition).where(workflows.c.status == "active")).scalars()]


def _box(settings: Settings) -> SecretBox | Check:
    complete = settings if settings.secret_key or not _has_key_file(settings) else ensure_secret_key(settings)
    if isinstance(complete, tuple):
        return Check("stored secrets", "failed", complete[0].message, complete[0].hint)
    try:
        return SecretBox(complete.secret_keys)
    except StoreError as error:
        return _failed("stored secrets", error)


def _connections(connection: sa.Connection, box: SecretBox) -> list[Looked]:
    """The connections of every project of which somebody can be asked, once their secrets are known to open."""
    rows = [row for kind in _ASKED for row in of_kind(connection, kind)]
    return [look_up(connection, row, _open(row, box)) for row in rows]


def _open(row: ConnectionRow, box: SecretBox) -> OpenConnection:
    secrets = {key: str(value) for key, value in box.open(row.secrets).items()}
    return OpenConnection(row.id, row.project_id, row.kind, row.name, row.config, secrets)


def _has_key_file(settings: Settings) -> bool:
    return (settings.data_dir / FILE_NAME).exists()


def _opens(box: SecretBox, sealed: str) -> bool:
    try:
        box.open(sealed)
    except StoreError:
        return False
    return True


def _service(settings: Settings) -> tuple[Check, str]:
    """How the service of the data folder stands, and what it says of its sandbox; empty where nothing is told."""
    try:
        path = running_socket(settings.data_dir)
        if path is None:
            return Check("service", "warning", "none runs on this data folder", "loops serve starts it"), ""
        ready = Client.over(path, "default").ready()
    except LoopsError as error:
        return _failed("service", error), ""
    if not ready.is_ready:
        words = f"it answers and is not ready: {ready.reason}"
        return Check("service", "failed", words, "its log has the details"), ready.sandbox
    return Check("service", "ok", f"it answers at {path}"), ready.sandbox


def _failed(name: str, error: LoopsError) -> Check:
    return Check(name, "failed", error.message, error.hint)
