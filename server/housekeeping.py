"""What a process does beside its work: the first token, retention, gauges, the garbage collector."""

import asyncio
import gc
import logging
from datetime import timedelta

from loops.errors import StoreBusy
from loops.ports import Clock, Reader, Writer
from loops.runs.engine import EngineClient
from loops.store import connections, deliveries, retention, run_queries
from loops.store.database import DEFAULT_PROJECT, Database
from server.auth import new_token
from server.metrics import Metrics

log = logging.getLogger("loops.housekeeping")

_RETENTION_SECONDS = 3600.0
_BETWEEN_BATCHES = 0.5
_MEASURE_SECONDS = 5.0
# Engine rows are of no use once their segment is over: the run keeps its own record.
_ENGINE_KEEP = timedelta(days=1)
_FIRST = "first"


async def first_token(writer: Writer, clock: Clock) -> str | None:
    """The admin token of a new installation, once: with several processes the one that wins the insert has it."""
    token, digest = new_token()
    made = await writer.run(
        lambda connection: connections.insert_token(
            connection,
            token_id=_FIRST,
            project_id=DEFAULT_PROJECT,
            name="first admin",
            role="admin",
            digest=digest,
            now=clock.now(),
        )
    )
    return token if made else None


async def retain(writer: Writer, reader: Reader, client: EngineClient, clock: Clock, keep_days: int) -> None:
    """Delete what is old, hourly, in small batches."""
    while True:
        try:
            gone = await retain_once(writer, reader, client, clock, keep_days)
            if gone:
                log.info("retention removed old rows", extra={"count": gone})
        except StoreBusy as error:
            log.warning("retention put off: %s", error.message)
        await asyncio.sleep(_RETENTION_SECONDS)


async def retain_once(writer: Writer, reader: Reader, client: EngineClient, clock: Clock, keep_days: int) -> int:
    """Delete all that is old by now, batch by batch; how many rows."""
    total = 0
    while True:
        now = clock.now()
        old = await reader.read(lambda connection: retention.find(connection, now, keep_days))  # noqa: B023
        gone = await writer.run(lambda connection: retention.remove(connection, old)) if old else 0  # noqa: B023
        gone += await client.forget(before=now - _ENGINE_KEEP)
        total += gone
        if not gone:
            return total
        await asyncio.sleep(_BETWEEN_BATCHES)


async def measure(database: Database, metrics: Metrics) -> None:
    """Keep the gauges that have to be counted."""
    counted = 0
    while True:
        try:
            metrics.dispatch_backlog.set(await database.reader.read(deliveries.backlog))
            metrics.runs_waiting.set((await database.reader.read(run_queries.counts)).get("waiting", 0))
        except StoreBusy as error:
            log.warning("cannot measure: %s", error.message)
        metrics.writer_queue_depth.set(database.writer.depth)
        metrics.writer_transactions.inc(database.writer.transactions - counted)
        counted = database.writer.transactions
        await asyncio.sleep(_MEASURE_SECONDS)


def settle_collector() -> None:
    """What is alive now stays so: the garbage collector need not walk it at every full pass."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
