"""A small load generator: raw keep-alive connections, so that it costs less than what it measures."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench.payloads import Template, quiet_mix, wanted


@dataclass
class Tally:
    """What a round came to: answers by status, and latencies in seconds; `processor` is what the server used of it."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    processor: float = 0.0

    @property
    def rate(self) -> float:
        return self._taken / self.seconds

    @property
    def each(self) -> float:
        """Microseconds of a processor for each delivery that was taken."""
        return 1e6 * self.processor / max(1, self._taken)

    def with_another(self, other: "Tally") -> "Tally":
        """Both as one."""
        statuses = {status: self.statuses.get(status, 0) + other.statuses.get(status, 0)
                    for status in {*self.statuses, *other.statuses}}  # fmt: skip
        latencies, seconds = self.latencies + other.latencies, self.seconds + other.seconds
        return Tally(seconds, statuses, latencies, self.processor + other.processor)

    @property
    def _taken(self) -> int:
        return sum(count for status, count in self.statuses.items() if status < 300)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else 0.0


class Mix:
    """Deliveries of which one in `one_in` is wanted by a loop (0: none, 1: all)."""

    def __init__(self, path: str, one_in: int) -> None:
        self._path = path
        self._one_in = one_in
        self._quiet = quiet_mix()
        self._wanted = wanted()
        self._count = 0

    def __call__(self) -> list[bytes]:
        self._count += 1
        if self._one_in and self._count % self._one_in == 0:
            return self._wanted.fresh().parts(self._path)
        return self._pick().parts(self._path)

    def _pick(self) -> Template:
        return self._quiet[self._count % len(self._quiet)]


class Connection(asyncio.Protocol):
    """One request at a time. Whoever is not answered gets the status 599."""

    def __init__(self) -> None:
        self._buffer = b""
        self.transport: asyncio.Transport | None = None
        self.waiter: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else None]) if at >= 0 else 0
        if len(rest) < length:
            return
        self._buffer = b""
        self._done(int(head[9:12]))

    def connection_lost(self, _exc: Exception | None) -> None:
        self._done(599)

    def _done(self, status: int) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(status)

    async def ask(self, parts: list[bytes]) -> int:
        """The status of the answer."""
        self.waiter = asyncio.get_running_loop().create_future()
        if self.transport is None or self.transport.is_closing():
            return 599
        self.transport.writelines(parts)
        return await self.waiter


async def connect(port: int) -> Connection:
    """A new connection to this machine. Raises OSError."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def closed_loop(port: int, make: Callable[[], list[bytes]], seconds: float, connections: int = 32) -> Tally:
    """As fast as the server answers."""
    tally = Tally()
    begun = time.perf_counter()
    until = begun + seconds

    async def work() -> None:
        connection = await connect(port)
        while (at := time.perf_counter()) < until:
            status = await connection.ask(make())
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            tally.latencies.append(time.perf_counter() - at)
            if status == 599:
                connection = await connect(port)
        if connection.transport is not None:
            connection.transport.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    tally.seconds = time.perf_counter() - begun
    return tally


async def offered(
    port: int, make: Callable[[], list[bytes]], rate: float, seconds: float, connections: int = 64
) -> Tally:
    """At a fixed rate with random gaps; a latency counts from when the request was due, so waiting is not hidden."""
    tally = Tally()
    due: asyncio.Queue[float | None] = asyncio.Queue()

    async def work() -> None:
        connection = await connect(port)
        while (at := await due.get()) is not None:
            status = await connection.ask(make())
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            tally.latencies.append(time.perf_counter() - at)
        if connection.transport is not None:
            connection.transport.close()

    workers = [asyncio.create_task(work()) for _ in range(connections)]
    begun = at = time.perf_counter()
    while at < begun + seconds:
        at += random.expovariate(rate)
        pause = at - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        due.put_nowait(at)
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    tally.seconds = time.perf_counter() - begun
    return tally
