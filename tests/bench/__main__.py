"""All measurements, one after the other, or those that are named: `python -m tests.bench [github match …]`."""

import subprocess
import sys

BENCHES = ("github", "match", "schedules", "forecast", "engine", "slack", "kill", "workspace", "receive")


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHES)
    if unknown := [name for name in wanted if name not in BENCHES]:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        print(f"\n== {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=False).returncode
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
