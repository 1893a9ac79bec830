"""What schedules cost: `python -m tests.bench.schedules [--postgres]`.

The next occurrence, by how long ago the schedule began; a thousand loops that are due in one second, each of a workflow
of its own, from the second to the commit that queues their runs; and starting a clock over ten thousand schedules.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from loops.clock import SystemClock
from loops.runs.engine import EngineClient, prepare_engine
from loops.schedules.timetable import Timing, timetable
from loops.store import schedules as store
from loops.store import workflows as workflows_store
from loops.store.database import open_database
from loops.store.ids import new_id
from loops.store.schedule_tables import schedules
from loops.store.schedules import ScheduleRow
from loops.store.workflows import WorkflowRow
from triggers.schedule.claim import Claimed, Occurrences
from triggers.schedule.clock import ScheduleClock

SHAPES = (
    ("hourly", {"rrule": "FREQ=HOURLY;INTERVAL=1"}),
    ("daily", {"rrule": "FREQ=DAILY;INTERVAL=1"}),
    ("weekdays", {"rrule": "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR"}),
    ("weekly", {"rrule": "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO"}),
    ("monthly", {"rrule": "FREQ=MONTHLY;BYDAY=1MO,-1FR"}),
    ("yearly", {"rrule": "FREQ=YEARLY"}),
    ("cron", {"cron": "0 9 * * 1-5"}),
)
AGES = (("1 day", 1), ("1 year", 365), ("50 years", 50 * 365))
NOW = datetime(2026, 6, 15, 13, 27, tzinfo=UTC)
_ROUNDS, _CALLS = 15, 200


def occurrences() -> float:
    """CPU time of the next occurrence in microseconds, the best of some rounds; the most that any shape takes."""
    print(f"{'next occurrence, us':<20}" + "".join(f"{name:>10}" for name, _ in AGES))
    worst = 0.0
    for shape, rule in SHAPES:
        took = [_next_costs(rule, days) for _, days in AGES]
        worst = max(worst, *took)
        print(f"{shape:<20}" + "".join(f"{one:10.0f}" for one in took))
    return worst


def _next_costs(rule: dict[str, str], days: int) -> float:
    starts_at = (NOW - timedelta(days=days)).replace(hour=9, minute=0, tzinfo=None).isoformat()
    table = timetable(Timing("America/New_York", **rule, starts_at=starts_at))
    best = float("inf")
    for _ in range(_ROUNDS):
        begun = time.process_time()
        for _ in range(_CALLS):
            next(table.after(NOW))
        best = min(best, (time.process_time() - begun) / _CALLS)
    return best * 1e6


def fill(workflows: int, count: int, due: datetime) -> Any:
    """What stores active loops, and hourly schedules of theirs that are due at a moment."""
    text = (files("config") / "examples" / "loop-triage.json").read_text(encoding="utf-8")
    definition = json.loads(text)
    definition["actions"][0]["config"] = {"type": "schedule"}
    start = due.isoformat()
    begun = due - timedelta(hours=1)

    def put(connection: Any) -> None:
        rows = [_workflow(definition, number, begun) for number in range(workflows)]
        for row in rows:
            workflows_store.insert(connection, row)
        for row in itertools.islice(itertools.cycle(rows), count):
            store.insert(connection, _schedule(row, start, due))

    return put


def _workflow(definition: dict[str, Any], number: int, now: datetime) -> WorkflowRow:
    name = f"loop {number}"
    return WorkflowRow(
        new_id(), "default", name, "", "active", "loops", 1, {**definition, "name": name}, 1, 1, None, None, now, now
    )  # fmt: skip


def _schedule(row: WorkflowRow, start: str, due: datetime) -> ScheduleRow:
    rule = "FREQ=HOURLY;INTERVAL=1"
    return ScheduleRow(
        new_id(), "default", row.id, rule, None, start, "UTC", {}, "last", "active", due, None, "", due, due
    )  # fmt: skip


async def burst(url: str, count: int) -> float:
    """Seconds from the second in which loops are due to the commit that queues the last of them."""
    database = open_database(url)
    prepare_engine(url)
    client = EngineClient(url)
    seen: list[float] = []
    all_seen = asyncio.Event()
    due = datetime.now(UTC)

    def note(claimed: Claimed) -> None:
        seen.extend([(datetime.now(UTC) - due).total_seconds()] * sum(claimed.outcomes.values()))
        if len(seen) >= count:
            all_seen.set()

    try:
        await database.writer.run(fill(count, count, due))
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
        change = schedules.update().values(next_due=due, starts_at=due.isoformat())
        await database.writer.run(lambda connection: connection.execute(change).rowcount)
        found = Occurrences(database.writer, database.reader, client, SystemClock(), note)
        ticking = asyncio.create_task(ScheduleClock(found).forever())
        await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
        begun = time.process_time()
        await all_seen.wait()
        took = time.process_time() - begun
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
    finally:
        await client.aclose()
        await database.aclose()
    seen.sort()
    print(f"{count} loops due in one second: queued after {seen[0]:.2f} s (first), {seen[len(seen) // 2]:.2f} s")
    print(f"(half of them), {seen[-1]:.2f} s (last); {took:.2f} s of one core")
    return seen[-1]


async def start(url: str, count: int) -> tuple[float, float]:
    """Seconds until a clock over so many schedules has looked for the first time, and the memory that it took in MB."""
    database = open_database(url)
    prepare_engine(url)
    client = EngineClient(url)
    try:
        later = datetime.now(UTC) + timedelta(hours=1)
        await database.writer.run(fill(100, count, later))
        found = Occurrences(database.writer, database.reader, client, SystemClock())
        before, begun = _memory(), time.perf_counter()
        await found.arm()
        await found.claim()
        await found.seconds_to_next()
        took, memory = time.perf_counter() - begun, _memory() - before
    finally:
        await client.aclose()
        await database.aclose()
    print(f"a clock over {count} schedules: {took * 1000:.0f} ms to its first look, {memory:.1f} MB")
    return took, memory


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def databases(*, on_postgres: bool, folder: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases."""
    if not on_postgres:
        yield f"sqlite:///{folder / 'burst.db'}", f"sqlite:///{folder / 'start.db'}"
        return
    from tests.bench.engine import databases as of_postgres

    with of_postgres(on_postgres=True, folder=folder) as urls:
        yield urls


def main() -> int:
    """Print what was measured; 1 where it is worse than what docs/performance.md promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true", help="on the bundled Postgres, in place of SQLite")
    parser.add_argument("--burst", type=int, default=1000, help="how many loops are due in one second")
    args = parser.parse_args()
    worst = occurrences()
    with tempfile.TemporaryDirectory() as folder, databases(on_postgres=args.postgres, folder=Path(folder)) as urls:
        last = asyncio.run(burst(urls[0], args.burst))
        asyncio.run(start(urls[1], 10_000))
    return int(worst > 100 or last > 1)


if __name__ == "__main__":
    raise SystemExit(main())
