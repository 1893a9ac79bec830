"""How fast deliveries are received, beside a bare handler and probot, in interleaved rounds.

    python -m tests.bench.receive [--rounds 5] [--seconds 5] [--without probot]

bare       aiohttp on uvloop: reads the body, checks the same signature, decodes the same fields, answers
accept     the product with its dispatcher paused: verified, stored, answered
dispatch   and matched against 10,000 triggers, one delivery in a hundred matching, runs enqueued
execute    and the runs, three steps each, executed in the same process
probot     the npm package, verifying and routing; stores nothing

Ratios are of medians over the rounds. "cpu" is what the server used of a processor for each delivery: its share of bare
holds better where the machine has other work. A round whose bare rate moved more than 15 % from its begin to its end
says more of the machine than of us, and is taken again.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import uvloop

from tests.bench.load import Mix, Tally, closed_loop, offered
from tests.bench.payloads import SECRET

_MOVED = 0.15
_PATHS = {"bare": "/hook", "bolt": "/hook", "probot": "/api/github/webhooks"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server under test, in a process of its own."""

    def __init__(
        self, name: str, command: list[str], port: int, cwd: Path | None = None, env: dict[str, str] | None = None
    ):
        self.name, self.port = name, port
        self.path = _PATHS.get(name, "/hooks/github/1")
        self.process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL)

    async def ready(self, patience: float = 300.0) -> None:
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
                return
            await asyncio.sleep(0.2)
        raise SystemExit(f"{self.name} did not listen within {patience:.0f} s")

    def processor(self) -> float:
        """The seconds of a processor that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pause(self) -> None:
        """Stop its process, so that a server that is not measured costs nothing."""
        self.process.send_signal(19)

    def go_on(self) -> None:
        self.process.send_signal(18)

    def end(self) -> None:
        self.go_on()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()


def product(name: str, folder: Path, *options: str) -> Server:
    port = free_port()
    data = folder / name
    command = [sys.executable, "-m", "tests.bench.receive_server", name, str(port), str(data), *options]
    return Server(name, command, port)


def probot(folder: Path) -> Server | None:
    """probot from the npm registry in a scratch folder; None where npm cannot install it."""
    if shutil.which("npm") is None:
        return None
    (folder / "package.json").write_text('{"name": "bench", "private": true, "type": "module"}')
    told = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "probot@14", "octokit@5"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if told.returncode:
        return None
    (folder / "app.js").write_text(_PROBOT)
    key = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
    port = free_port()
    env = {"PORT": str(port), "APP_ID": "1", "PRIVATE_KEY": key, "WEBHOOK_SECRET": SECRET, "LOG_LEVEL": "fatal",
           "NODE_ENV": "production"}  # fmt: skip
    return Server("probot", ["node", "app.js"], port, folder, env)


_PROBOT = """
import { createServer } from "node:http";
import { createNodeMiddleware, createProbot } from "probot";
const probot = createProbot();
let opened = 0;
const app = (app) => { app.on("issues.opened", async () => { opened += 1; }); };
const middleware = await createNodeMiddleware(app, { probot });
createServer((request, response) => middleware(request, response)).listen(Number(process.env.PORT), "127.0.0.1");
"""


async def one_round(servers: list[Server], seconds: float) -> dict[str, Tally] | None:
    """Each server in turn; None when the machine moved meanwhile."""
    tallies: dict[str, Tally] = {}
    for server in [*servers, servers[0]]:
        server.go_on()
        one_in = 100 if server.name in {"dispatch", "execute"} else 0
        used = server.processor()
        tally = await closed_loop(server.port, Mix(server.path, one_in), seconds)
        if server.name == "bare" and "bare" in tallies:
            tally.processor = server.processor() - used
            before = tallies["bare"].rate
            if abs(tally.rate - before) > _MOVED * before:
                return None
            tallies["bare"] = tallies["bare"].with_another(tally)
            continue
        tallies[server.name] = tally
        await asyncio.sleep(1.5)  # what is left behind is done before the next begins
        tally.processor = server.processor() - used
        if server is not servers[0]:
            server.pause()
    return tallies


def show(rounds: list[dict[str, Tally]]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    if not rounds:
        print("no round was kept: the machine moved in every one; nothing can be said of the ratios")
        return ratios
    print(
        f"\n{'':<10}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'of bare':>9}   {'spread of the ratio':<19}"
        f"{'cpu µs':>9}{'of bare':>9}"
    )
    for name in rounds[0]:
        shares = [one[name].rate / one["bare"].rate for one in rounds]
        rate = statistics.median(one[name].rate for one in rounds)
        p50 = statistics.median(one[name].percentile(0.5) for one in rounds)
        p99 = statistics.median(one[name].percentile(0.99) for one in rounds)
        ratios[name] = statistics.median(shares)
        each = statistics.median(one[name].each for one in rounds)
        by_processor = statistics.median(one["bare"].each / (one[name].each or 1.0) for one in rounds)
        print(
            f"{name:<10}{rate:>9.0f}{p50:>9.2f}{p99:>9.2f}{ratios[name]:>9.3f}   {min(shares):.3f} - {max(shares):.3f}"
            f"{each:>15.1f}{by_processor:>9.3f}"
        )
        failed = {status: n for one in rounds for status, n in one[name].statuses.items() if status >= 300}
        if failed:
            print(f"  answers that were no success: {failed}")
    return ratios


async def backlog(server: Server) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}/bench/backlog") as told:
        return float((await told.json())["backlog"])


async def sustained(folder: Path, seconds: float) -> None:
    """The dispatching server under full load for 30 s: how long its backlog takes to go once the load ends."""
    server = product("dispatch", folder / "sustained")
    try:
        await server.ready()
        tally = await closed_loop(server.port, Mix(server.path, 100), seconds)
        ended = time.perf_counter()
        left = waiting = await backlog(server)
        for _ in range(3000):
            if not waiting:
                break
            await asyncio.sleep(0.02)
            waiting = await backlog(server)
        drained = time.perf_counter() - ended
    finally:
        server.end()
    print(
        f"dispatch for {seconds:.0f} s: {tally.rate:.0f}/s, {left:.0f} deliveries left at the end, "
        f"done {drained:.2f} s later"
    )


async def latencies(folder: Path, seconds: float) -> None:
    """Fixed rates: a thousand a second of the mix; two hundred that all match while every slot is busy."""
    for label, options, one_in, rate in (
        ("1,000/s, 1 in 100 matching", (), 100, 1000.0),
        ("200/s, all matching, every slot busy", ("--busy",), 1, 200.0),
    ):
        server = product("execute", folder / f"rate-{rate:.0f}", *options)
        try:
            await server.ready()
            await offered(server.port, Mix(server.path, one_in), rate, 2.0)
            tally = await offered(server.port, Mix(server.path, one_in), rate, seconds)
        finally:
            server.end()
        print(f"{label}: {tally.rate:.0f}/s, p50 {tally.percentile(0.5):.1f} ms, p99 {tally.percentile(0.99):.1f} ms, "
              f"answers {tally.statuses}")  # fmt: skip


@contextlib.contextmanager
def running(folder: Path, without: set[str]) -> Iterator[list[Server]]:
    bare = free_port()
    servers = [Server("bare", [sys.executable, "-m", "tests.bench.receive_server", "bare", str(bare), "-"], bare)]
    try:
        servers += [product(name, folder) for name in ("accept", "dispatch", "execute") if name not in without]
        (folder / "probot").mkdir()
        peer = None if "probot" in without else probot(folder / "probot")
        if peer is None:
            print("probot is left out: it could not be installed, or was not wanted")
        else:
            servers.append(peer)
        yield servers
    finally:
        for server in servers:
            server.end()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--sustained", type=float, default=30.0)
    parser.add_argument(
        "--without", action="append", default=[], choices=["probot", "accept", "dispatch", "execute", "rates"]
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loops-bench-") as scratch:
        folder = Path(scratch)
        with running(folder, set(given.without)) as servers:
            for server in servers:
                await server.ready()
                await closed_loop(server.port, Mix(server.path, 0), 1.0)
                if server is not servers[0]:
                    await asyncio.sleep(1.0)
                    server.pause()
            rounds: list[dict[str, Tally]] = []
            tries = 0
            while len(rounds) < given.rounds and tries < 3 * given.rounds:
                tries += 1
                taken = await one_round(servers, given.seconds)
                if taken is None:
                    print("the machine moved: round repeated")
                    continue
                rounds.append(taken)
                print(f"round {len(rounds)}: " + ", ".join(f"{name} {one.rate:.0f}/s" for name, one in taken.items()))
            ratios = show(rounds)
        if "rates" not in given.without:
            await sustained(folder, given.sustained)
            await latencies(folder, 10.0)
    print(json.dumps({"ratios": ratios}))


if __name__ == "__main__":
    uvloop.run(main())
