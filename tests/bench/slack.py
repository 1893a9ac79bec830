"""How fast Slack is answered: `python -m tests.bench.slack [--rounds 5] [--seconds 4]`.

The edge: our hook, which verifies, stores and answers, beside slack-bolt's AsyncApp on aiohttp, which verifies the same
messages and hands them to a listener that does nothing; both on uvloop, in interleaved rounds. What counts is the ratio
within a round, by answers a second and by what each takes of a processor.

Under load: 200 deliveries a second, of GitHub, of Slack over HTTP and of Slack by socket in turn, each wanted by a
workflow, while every slot for runs and for tasks is taken.
"""

import argparse
import asyncio
import hmac
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.acceptance.busy import busy
from tests.bench.load import Tally, closed_loop
from tests.bench.receive import Server, free_port, product
from tests.bench.slack_server import SECRET
from tests.doubles.slack_socket import slack_sockets
from tests.unit.triggers.slack.deliveries import fixture

_MARK = "0" * 12


class Messages:
    """Messages of a channel, each with an id and a time of its own."""

    def __init__(self, path: str) -> None:
        ts = f"1793610000.{_MARK[:6]}"
        made = fixture("message__plain", {"ts": ts, "event_ts": ts}, event_id=f"Ev{_MARK}")
        self._body = json.dumps(made, separators=(",", ":")).encode()
        self._head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Slackbot 1.0\r\nAccept: */*\r\n"
        self._head += f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n"
        self._numbers = itertools.count(time.time_ns() // 1000 % 10**11)

    def __call__(self) -> list[bytes]:
        number = f"{next(self._numbers):012d}"
        body = self._body.replace(f"Ev{_MARK}".encode(), f"Ev{number}".encode())
        body = body.replace(f".{_MARK[:6]}".encode(), f".{number[-6:]}".encode())
        now = str(int(time.time()))
        digest = hmac.digest(SECRET.encode(), f"v0:{now}:".encode() + body, "sha256").hex()
        signed = f"X-Slack-Request-Timestamp: {now}\r\nX-Slack-Signature: v0={digest}\r\n\r\n"
        return [(self._head + signed).encode(), body]


async def edge(folder: Path, rounds: int, seconds: float) -> dict[str, float]:
    """The medians of our rate by bolt's and of bolt's use of a processor by ours."""
    port = free_port()
    bolt = Server("bolt", [sys.executable, "-m", "tests.bench.slack_server", str(port)], port)
    servers = [bolt]
    try:
        ours = product("accept", folder)
        ours.path = "/hooks/slack/2"
        servers.append(ours)
        found: dict[str, list[Tally]] = {"bolt": [], "accept": []}
        for server in servers:
            await server.ready()
            server.pause()
        for number in range(rounds + 1):
            for server in servers:
                server.go_on()
                tally = await _measured(server, seconds if number else 1.0)
                server.pause()
                if number:  # the first warms up
                    found[server.name].append(tally)
    finally:
        for server in servers:
            server.end()
    return _shown(found["accept"], found["bolt"])


async def _measured(server: Server, seconds: float) -> Tally:
    used = server.processor()
    tally = await closed_loop(server.port, Messages(server.path), seconds)
    await asyncio.sleep(0.2)  # bolt answers before its listener is done
    tally.processor = server.processor() - used
    assert set(tally.statuses) <= {200, 202}, tally.statuses
    return tally


def _shown(ours: list[Tally], bolt: list[Tally]) -> dict[str, float]:
    for name, tallies in (("slack-bolt", bolt), ("ours, stored", ours)):
        rate, p50, p99, each = (
            statistics.median(told)
            for told in zip(
                *((one.rate, one.percentile(0.5), one.percentile(0.99), one.each) for one in tallies), strict=True
            )
        )
        print(f"{name}: {rate:.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms, cpu {each:.0f} µs")
    told = {}
    for name, ratios in (
        ("rate", [one.rate / other.rate for one, other in zip(ours, bolt, strict=True)]),
        ("cpu", [other.each / one.each for one, other in zip(ours, bolt, strict=True)]),
    ):
        told[name] = statistics.median(ratios)
        print(f"as fast as bolt, by {name}: {told[name]:.2f} ({min(ratios):.2f} - {max(ratios):.2f})")
    return told


async def under_load(folder: Path, rate: float, seconds: float) -> None:
    """How long each way of delivering waits for its answer."""
    async with slack_sockets() as slack, busy(folder, f"sqlite:///{folder / 'loops.db'}", slack) as service:
        answered = await service.offered(rate, seconds)
        full = "every slot is still taken" if await service.still_full() else "NOT every slot is taken any more"
        print(f"{rate:.0f} a second for {seconds:.0f} s, {full}, {await service.queued()} runs are queued")
    for name, found in answered.items():
        print(f"{name}: {found.words()}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--only", choices=["edge", "load"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loops-bench-") as scratch:
        if given.only != "load":
            told = await edge(Path(scratch), given.rounds, given.seconds)
            print(json.dumps({"ratios": told}))
        if given.only != "edge":
            await under_load(Path(scratch) / "busy", given.rate, 10.0)


if __name__ == "__main__":
    uvloop.run(main())
