"""The connections that receiving needs on every request: opened once, kept until any of them changes."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.connections.named import Unfit, unfit
from loops.connections.secrets import SecretBox
from loops.errors import NotFound, StoreBusy, StoreError
from loops.ports import Reader
from loops.store import connections as store
from loops.store.connections import ConnectionRow

log = logging.getLogger("loops.connections")

_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection with its secrets opened; `config` holds what is no secret."""

    id: int
    project_id: str
    kind: str
    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]


class ConnectionBook:
    """A change made in any process is seen within a second, and at once for a connection not seen before."""

    def __init__(
        self, reader: Reader, box: SecretBox, opened: Callable[[Iterable[str]], None] = lambda _secrets: None
    ) -> None:
        """`opened` is told the secrets of every connection that is opened, so that no log shows them."""
        self._reader = reader
        self._opened = opened
        self._box = box
        self._known: dict[int, OpenConnection] = {}
        self._by_key: dict[str, dict[bytes, OpenConnection]] = {}
        self._epoch = -1
        self._checked = 0.0

    def known(self, connection_id: int, kind: str) -> OpenConnection | None:
        """The connection if it is at hand, and was looked after within the last second."""
        found = self._known.get(connection_id)
        fresh = time.monotonic() - self._checked <= _CHECK_SECONDS
        return found if fresh and found is not None and found.kind == kind else None

    async def get(self, connection_id: int, kind: str) -> OpenConnection:
        """The connection of this kind. Raises NotFound, or StoreError when its secrets cannot be opened."""
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            await self._check()
        found = self._known.get(connection_id) or await self._load(connection_id)
        if found is None or found.kind != kind:
            raise NotFound(f"there is no {kind} connection {connection_id}", hint="see: loops integrations list")
        return found

    async def of_project(self, project_id: str, connection_id: int, kind: str) -> OpenConnection:
        """The same, of this project alone: that of another is not there."""
        found = await self.get(connection_id, kind)
        if found.project_id != project_id:
            raise NotFound(f"there is no {kind} connection {connection_id}", hint="see: loops integrations list")
        return found

    async def unfit(self, project_id: str, kind: str, wanted: int) -> Unfit | None:
        """Why a message cannot leave over a connection; None where it is one of the project, of this kind."""
        return await self._reader.read(lambda connection: unfit(connection, project_id, kind, wanted))

    async def by_api_key(self, kind: str, key: str) -> OpenConnection | None:
        """The connection of this kind with this `api_key`, the oldest where several have it; None where none has.

        Raises StoreBusy where it cannot be looked for.
        """
        wanted = _digest(key)  # how long the look-up takes tells nothing of the keys
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            await self._check()
        found = (self._by_key.get(kind) or await self._load_keys(kind)).get(wanted)
        if found is None:  # it may have been made just now
            await self._check()
            found = (self._by_key.get(kind) or await self._load_keys(kind)).get(wanted)
        return found

    async def _load_keys(self, kind: str) -> dict[bytes, OpenConnection]:
        before = self._epoch
        keyed: dict[bytes, OpenConnection] = {}
        for opened in self._open_all(await self._reader.read(lambda connection: store.of_kind(connection, kind))):
            if "api_key" in opened.secrets:
                keyed.setdefault(_digest(opened.secrets["api_key"]), opened)
        if self._epoch == before:
            self._by_key[kind] = keyed
        return keyed

    async def changed(self, kind: str, since: int) -> tuple[int, list[OpenConnection]] | None:
        """Every connection of the kind that can be opened, with the epoch of this state; None while that is `since`.

        Raises StoreBusy.
        """
        found = await self._reader.read(lambda connection: _of_kind(connection, kind, since))
        if found is None:
            return None
        epoch, rows = found
        return epoch, self._open_all(rows)

    def _open_all(self, rows: Iterable[ConnectionRow]) -> list[OpenConnection]:
        """Those that can be opened."""
        opened = []
        for row in rows:
            try:
                opened.append(self._open(row))
            except StoreError as error:
                log.warning("connection cannot be opened", extra={"connection": row.id, "reason": error.message})
        return opened

    async def _check(self) -> None:
        self._checked = time.monotonic()
        try:
            epoch = await self._reader.read(store.epoch)
        except StoreBusy as error:  # what is known stays good enough to receive with; accepting answers 503 itself
            log.warning("cannot look for changed connections: %s", error.message)
            return
        if epoch != self._epoch:
            self._known.clear()
            self._by_key.clear()
            self._epoch = epoch

    async def _load(self, connection_id: int) -> OpenConnection | None:
        before = self._epoch
        row = await self._reader.read(lambda connection: store.get(connection, connection_id))
        if row is None:
            return None
        opened = self._open(row)
        if self._epoch == before:  # else it was read before a change that this process has seen since
            self._known[row.id] = opened
        return opened

    def _open(self, row: ConnectionRow) -> OpenConnection:
        secrets = {key: str(value) for key, value in self._box.open(row.secrets).items()}
        self._opened(secrets.values())
        return OpenConnection(row.id, row.project_id, row.kind, row.name, dict(row.config), secrets)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _of_kind(connection: sa.Connection, kind: str, since: int) -> tuple[int, list[ConnectionRow]] | None:
    epoch = store.epoch(connection)
    return None if epoch == since else (epoch, store.of_kind(connection, kind))
