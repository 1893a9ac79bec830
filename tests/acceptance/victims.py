"""Services that are killed, and the sender that delivers to them."""

import multiprocessing
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import aiohttp
import sqlalchemy as sa

from loops.store import postgres, sqlite
from loops.store.database import is_sqlite
from loops.store.tables import deliveries, runs
from server.app import Role, Wiring
from tests.acceptance import killer
from tests.conftest import new_postgres, new_sqlite
from tests.integration.running import eventually, running, signed

OPEN = {"queued", "running", "waiting"}
# So many are killed beside each other, each on databases of its own: most of a takeover is waiting.
LANES = 5


def together(points: Sequence[tuple[str, int]], lanes: int = LANES) -> list[tuple[tuple[str, int], ...]]:
    """The points in groups, one for each lane."""
    return [tuple(points[start : start + lanes]) for start in range(0, len(points), lanes)]


def named(group: Sequence[tuple[str, int]]) -> str:
    """What a test of these points is called."""
    return ",".join(f"{point}-{nth}" for point, nth in group)


@dataclass(frozen=True)
class Places:
    """Where services lie: folders, and copies of the databases that hold every table and no row."""

    server: Any
    postgres_template: str
    sqlite_template: Path
    folder: Callable[[str], Path]

    @contextmanager
    def opened(self, lanes: int = LANES) -> Iterator[list[tuple[Path, str]]]:
        """A folder and a database for each lane, on SQLite and on Postgres."""
        with ExitStack() as stack:
            found = []
            for _lane in range(lanes):
                own = self.folder("sqlite")
                found.append((own, new_sqlite(self.sqlite_template, own)))
                copied = new_postgres(self.server, self.postgres_template)
                found.append((self.folder("postgres"), stack.enter_context(copied)))
            yield found


# Forked from a process that has done what all starts have in common, so that a start costs what the service costs.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.acceptance.preloaded"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(
    folder: Path,
    url: str,
    port: int,
    role: Role = "all",
    *,
    hasty: bool = True,
    serve: Callable[..., None] = killer.serve,
) -> BaseProcess:
    given = (folder, url, port, role)
    process = _processes.Process(target=serve, args=given, kwargs={"hasty": hasty}, daemon=True)
    process.start()
    return process


async def died(process: BaseProcess, patience: float = 30.0) -> int | None:
    async def exitcode() -> int | None:
        return process.exitcode

    return await eventually(exitcode, lambda code: code is not None, patience)


@dataclass
class Victim:
    """One service on one database, and the sender that delivers to it."""

    folder: Path
    url: str
    hook: int
    port: int
    process: BaseProcess | None = None
    serve: Callable[..., None] = killer.serve
    engine: sa.Engine = field(init=False)

    def __post_init__(self) -> None:
        if is_sqlite(self.url):
            self.engine = sqlite.connect(self.url, synchronous="NORMAL", begin="DEFERRED")
        else:
            self.engine = postgres.connect(self.url)

    def begin(self) -> None:
        self.process = start(self.folder, self.url, self.port, serve=self.serve)

    async def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            await died(self.process)
        self.engine.dispose()

    async def died(self) -> None:
        assert self.process is not None
        assert await died(self.process) == -signal.SIGKILL

    async def call(self, path: str, *, data: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
        """The status of a POST, 0 when nobody answered."""
        address = f"http://127.0.0.1:{self.port}{path}"
        try:
            async with aiohttp.ClientSession() as client, client.post(address, data=data, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 0

    async def arm(self, point: str, nth: int) -> None:
        assert await eventually(lambda: self.call(f"/arm?point={point}&nth={nth}"), lambda status: status) == 200

    async def deliver(self, payload: Mapping[str, Any], key: str) -> int:
        """Send once."""
        body, headers = signed(payload, key)
        return await self.call(f"/hooks/github/{self.hook}", data=body, headers=headers)

    async def accepted(self, payload: Mapping[str, Any], key: str) -> None:
        """Send as a patient sender does: the same delivery, until it was answered."""
        await eventually(lambda: self.deliver(payload, key), lambda status: 200 <= status < 300)

    async def found(self, query: "sa.Select[Any]") -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    async def of(self, key: str) -> list[dict[str, Any]]:
        """The runs of a delivery."""
        join = runs.join(deliveries, deliveries.c.id == runs.c.delivery_id)
        return await self.found(sa.select(runs).select_from(join).where(deliveries.c.key == key))


async def prepare(folder: Path, url: str, *documents: Mapping[str, Any]) -> int:
    """The database with its workflows and the connection's id, from a process that ends in order."""
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as service:
        for document in documents:
            await service.create(document)
        return service.hook
