"""The connections that receiving needs on every request: opened once, kept until any of them changes."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.connections.named import Unfit, unfit
from loops.connections.secrets import SecretBox
from loops.errors import NotFound, StoreBusy
from loops.ports import Reader
from loops.store import connections as store

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

    async def unfit(self, project_id: str, kind: str, wanted: int) -> Unfit | None:
        """Why a message cannot leave over a connection; None where it is one of the project, of this kind."""
        return await self._reader.read(lambda connection: unfit(connection, project_id, kind, wanted))

    async def _check(self) -> None:
        self._checked = time.monotonic()
        try:
            epoch = await self._reader.read(store.epoch)
        except StoreBusy as error:  # what is known stays good enough to receive with; accepting answers 503 itself
            log.warning("cannot look for changed connections: %s", error.message)
            return
        if epoch != self._epoch:
            self._known.clear()
            self._epoch = epoch

    async def _load(self, connection_id: int) -> OpenConnection | None:
        before = self._epoch
        row = await self._reader.read(lambda connection: store.get(connection, connection_id))
        if row is None:
            return None
        secrets = {key: str(value) for key, value in self._box.open(row.secrets).items()}
        self._opened(secrets.values())
        opened = OpenConnection(row.id, row.project_id, row.kind, row.name, dict(row.config), secrets)
        if self._epoch == before:  # else it was read before a change that this process has seen since
            self._known[row.id] = opened
        return opened
