"""Whether anything is lost when a service is killed under full load: `python -m tests.bench.kill [--count 30000]`.

Deliveries as fast as they are answered, to a process with dispatcher and engine that gets a SIGKILL when half of them
have been, and is started again; on SQLite and on the bundled Postgres. Then every delivery must be there exactly once
and be dispatched, and every one that the loop wants must have started exactly one run.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from tests.acceptance.flood import LISTENING, Flood
from tests.acceptance.victims import Victim, free_port, prepare
from tests.bench.engine import databases


async def flood(folder: Path, url: str, count: int) -> None:
    victim = Victim(folder, url, await prepare(folder, url, LISTENING), free_port())
    victim.begin()
    try:
        found = Flood(victim, count, kill_at=count // 2)
        await found.run()
        await found.check()
    finally:
        await victim.end()
    print(f"{url.partition(':')[0]}: {found.words()}; none lost, none twice", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    given = parser.parse_args()
    for name, on_postgres in (("sqlite", False), ("postgres", True)):
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="loops-bench-") as scratch:
                folder = Path(scratch)
                os.environ["XDG_RUNTIME_DIR"] = str(folder)
                with databases(on_postgres=on_postgres, folder=folder) as (url, _):
                    asyncio.run(flood(folder / "ours", url, given.count))


if __name__ == "__main__":
    main()
