"""What it costs to match one event, by the number of triggers: `python -m tests.bench.match`.

Ten triggers a repository, each exact on repository, event_type and actor_access, six in ten on action too. "hot" puts
one trigger in twenty, and one event in five, into one repository. "few" repeats 200 events, so that what they touch
stays in the processor's caches; "many" runs over 5,000, so that most of it comes from memory. "add" and "remove" change
one trigger of those that are there, compiled anew, with the collector set as a service sets it; their longest is what
the process stood still for. "MB" is what the triggers took, compiled and in the index.

Times are those of the processor, medians over the rounds, so that a process that is put aside meanwhile tells little
less. Each row is a process of its own, and their rounds alternate.
"""

import gc
import multiprocessing
import os
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from loops.event import Event, JsonValue
from loops.filters import compile_filter
from server.housekeeping import settle_collector
from triggers.matcher import Index, Listener

SIZES = (10, 1_000, 10_000, 100_000)
FEW, MANY = 200, 5_000
ROUNDS = 7
CHANGES = 1_000
EVENT_TYPES = ("issues", "issue_comment", "pull_request", "push")
ACTIONS = ("opened", "closed", "edited", "labeled", "created", "synchronize")
_RECEIVED = datetime(2026, 11, 1, tzinfo=UTC)


class Changes(NamedTuple):
    """Microseconds to add and to remove a trigger, the medians and the longest; and what all triggers take."""

    add: float
    longest_add: float
    remove: float
    longest_remove: float
    megabytes: float


def trigger(rng: random.Random, repository: str) -> dict[str, JsonValue]:
    properties: list[JsonValue] = [
        {"key": "repository", "value": [repository], "operator": "exact", "type": "event"},
        {"key": "event_type", "value": [rng.choice(EVENT_TYPES)], "operator": "exact", "type": "event"},
        {"key": "actor_access", "value": ["write"], "operator": "exact", "type": "event"},
    ]
    if rng.random() < 0.6:
        properties.append({"key": "action", "value": [rng.choice(ACTIONS)], "operator": "exact"})
    if rng.random() < 0.05:
        properties.append({"key": "title", "value": ["crash"], "operator": "icontains"})
    return {"events": [{"id": "$github_event_received", "type": "events"}], "properties": properties}


def event(rng: random.Random, repository: str) -> Event:
    properties: dict[str, JsonValue] = {
        "repository": repository,
        "event_type": rng.choice(EVENT_TYPES),
        "action": rng.choice(ACTIONS),
        "actor_access": rng.choice(("write", "read")),
        "sender": "octocat",
        "bot_sender": None,
        "number": rng.randrange(9_999),
        "title": rng.choice(("A crash on start", "Typo in the docs")),
        "body": "It happens at every start. " * 20,
        "branch": None,
    }
    return Event("u", "$github_event_received", "github", "octocat", _RECEIVED, properties)


class Subject:
    """One row of the table."""

    def __init__(self, size: int, *, hot: bool) -> None:
        self._rng = random.Random(size)
        self._hot = hot
        self._places = [f"acme/repo-{number}" for number in range(max(1, size // 10))]
        before = _resident()
        self._index = Index()
        for number in range(size):
            self._index.add(self._listener(number))
        self._megabytes = _resident() - before
        self._events = [event(self._rng, self._place(0.2)) for _ in range(MANY)]
        settle_collector()

    def round(self, count: int) -> tuple[float, float]:
        """Microseconds to match one of so many events, and how many triggers it matched."""
        events, passed = self._events[:count], 0
        began = time.thread_time()
        for one in events:
            passed += len(self._index.match("p", one).passed)
        return 1e6 * (time.thread_time() - began) / count, passed / count

    def change(self) -> Changes:
        """Remove a trigger, compile another and add it in its place; again and again."""
        removed, added = [], []
        for _ in range(CHANGES):
            number = self._rng.randrange(len(self._index))
            began = time.thread_time()
            self._index.remove(f"w{number}")
            between = time.thread_time()
            self._index.add(self._listener(number))
            added.append(1e6 * (time.thread_time() - between))
            removed.append(1e6 * (between - began))
        times = (statistics.median(added), max(added), statistics.median(removed), max(removed))
        return Changes(*times, self._megabytes)

    def _listener(self, number: int) -> Listener:
        wanted = compile_filter(trigger(self._rng, self._place(0.05)))
        return Listener(f"w{number}", wanted, 0, 1, "p", "internal-event")

    def _place(self, share: float) -> str:
        return self._places[0] if self._hot and self._rng.random() < share else self._rng.choice(self._places)


def _resident() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


class Process:
    """A subject in a process of its own."""

    _subject: Subject

    def __init__(self, size: int, *, hot: bool) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), Process._fill, (size, hot))
        self.rounds: dict[int, list[tuple[float, float]]] = {FEW: [], MANY: []}

    def round(self, count: int) -> None:
        self.rounds[count].append(self._pool.submit(Process._round, count).result())

    def change(self) -> Changes:
        return self._pool.submit(Process._change).result()

    def end(self) -> None:
        self._pool.shutdown()

    @classmethod
    def _fill(cls, size: int, hot: bool) -> None:
        cls._subject = Subject(size, hot=hot)

    @classmethod
    def _round(cls, count: int) -> tuple[float, float]:
        return cls._subject.round(count)

    @classmethod
    def _change(cls) -> Changes:
        return cls._subject.change()


def table(*, hot: bool) -> None:
    processes = {size: Process(size, hot=hot) for size in SIZES}
    for count in (FEW, MANY):
        for number in range(ROUNDS + 1):
            for process in processes.values():
                process.round(count)
                if not number:  # the first warms up
                    process.rounds[count].clear()
    for size, process in processes.items():
        few, many = (statistics.median(told[0] for told in process.rounds[count]) for count in (FEW, MANY))
        row, matches = process.change(), process.rounds[MANY][0][1]
        print(
            f"{size:>9} {'hot' if hot else '':3}{few:>9.2f}{many:>9.2f}{matches:>9.2f}{row.add:>9.1f}"
            f"{row.longest_add:>9.0f}{row.remove:>11.1f}{row.longest_remove:>9.0f}{row.megabytes:>7.1f}"
        )
        process.end()
    for name, count in (("few", FEW), ("many", MANY)):
        both = zip(processes[100_000].rounds[count], processes[1_000].rounds[count], strict=True)
        ratios = [most[0] / thousand[0] for most, thousand in both]
        print(f"100,000 by 1,000, {name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})")


def main() -> None:
    print(
        f"{'triggers':>9} {'':3}{'few µs':>9}{'many µs':>9}{'matches':>9}{'add µs':>9}{'longest':>9}"
        f"{'remove µs':>11}{'longest':>9}{'MB':>7}"
    )
    for hot in (False, True):
        table(hot=hot)


if __name__ == "__main__":
    main()
