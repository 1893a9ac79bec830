"""The ways out of a sandbox: ports that lead to sockets of the service, and hosts that are on its list."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loops.addresses import AllowedHosts
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.egress import Egress
from loops.tasks.workspace.inside import MOST_CONNECTIONS
from loops.tasks.workspace.plain import Plain
from loops.tasks.workspace.sandbox import Command, Room
from tests.integration.boxes import box

GET = "exec perl -MIO::Socket::INET -e '"
GET += '$s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]") or die "no connection\\n"; '
GET += "print $s $ARGV[1]; $s->shutdown(1); print while <$s>;' -- "
"""Sends text to a port of the sandbox, and prints what is answered."""


def _get(port: int, text: str) -> str:
    quoted = text.replace("\r\n", "'\"$(printf '\\r')\n\"'")
    return f"{GET}{port} '{quoted}'"


@asynccontextmanager
async def server(words: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on the loopback of this machine: its port, and what it was sent."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(words)}\r\n\r\n{words}".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as one:
        yield one.sockets[0].getsockname()[1], heard


@pytest.fixture
def open_to(bwrap: Bwrap):
    """Sandboxes whose service may reach these private hosts."""
    return lambda *hosts: replace(bwrap, egress=Egress(AllowedHosts.of(hosts)))


async def test_a_port_leads_to_a_socket_of_the_service(bwrap: Bwrap, checkout: Path, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answered: " + await reader.read())
        writer.close()

    path = tmp_path / "socket"
    async with (
        await asyncio.start_unix_server(answer, path),
        box(bwrap, checkout, ports={80: path, 8080: path}) as inside,
    ):
        assert await inside.says(_get(80, "asked")) == "answered: asked"
        assert await inside.says(_get(8080, "again")) == "answered: again"
        assert await inside.says(_get(81, "else")) == "no connection\n"


async def test_a_port_that_leads_to_nobody_is_closed_at_once(bwrap: Bwrap, checkout: Path, tmp_path: Path) -> None:
    async with box(bwrap, checkout, ports={80: tmp_path / "none"}) as inside:
        assert await inside.says(_get(80, "asked")) == ""


async def test_a_port_without_a_sandbox_is_one_of_this_machine(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answered: " + await reader.read())
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "socket"):
        async with server("") as (free, _):
            pass
        async with Plain().open(Room(tmp_path, ports={free: tmp_path / "socket"})) as sandbox:
            ran = await sandbox.run(Command(["/bin/sh", "-c", _get(free, "asked")]))
    assert ran.stdout == b"answered: asked"


async def test_a_host_on_the_list_is_reached_and_no_other(
    open_to, checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "loops.tasks.egress")
    async with AsyncExitStack() as stack:
        port, heard = await stack.enter_async_context(server("let through"))
        other, unheard = await stack.enter_async_context(server("hidden"))
        inside = await stack.enter_async_context(box(open_to("localhost"), checkout, hosts=[f"localhost:{port}"]))
        assert (await inside.says("echo $https_proxy $HTTP_PROXY")).split() == ["http://127.0.0.1:3128"] * 2
        asked = f"GET http://localhost:{port}/path?q=1 HTTP/1.1\r\nHost: other.test\r\nX-Mine: 1\r\n\r\n"
        assert (await inside.says(_get(3128, asked))).endswith("\r\n\r\nlet through")
        refused = await inside.says(_get(3128, f"GET http://localhost:{other}/ HTTP/1.1\r\n\r\n"))
        assert refused.startswith("HTTP/1.1 403")
        evil = await inside.says(_get(3128, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"))
        assert evil.startswith("HTTP/1.1 403")
        assert await inside.says(_get(port, "directly")) == "no connection\n"
    lines = heard[0].decode().split("\r\n")
    assert lines[0] == "GET /path?q=1 HTTP/1.1"
    assert f"Host: localhost:{port}" in lines, "the name that was judged, whatever the client says"
    assert {"X-Mine: 1", "Connection: close"} <= set(lines)
    assert not unheard
    told = [(one.getMessage(), one.__dict__["host"]) for one in caplog.records if one.name == "loops.tasks.egress"]
    assert told == [
        ("egress allowed", f"localhost:{port}"),
        ("egress refused: not on the list", f"localhost:{other}"),
        ("egress refused: not on the list", "evil.test:443"),
    ]


async def test_a_tunnel_carries_both_ways(open_to, checkout: Path) -> None:
    tunnel = server("through the tunnel")
    async with tunnel as (port, heard), box(open_to("127.0.0.0/8"), checkout, hosts=[f"127.0.0.1:{port}"]) as inside:
        asked = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        said = await inside.says(_get(3128, asked))
    assert said.startswith("HTTP/1.1 200 Connection established\r\n\r\n")
    assert said.endswith("through the tunnel")
    assert heard == [b"GET / HTTP/1.1\r\n\r\n"]


async def test_a_host_on_the_list_that_is_private_is_refused_all_the_same(open_to, checkout: Path) -> None:
    async with server("private") as (port, heard), box(open_to(), checkout, hosts=[f"localhost:{port}"]) as inside:
        said = await inside.says(_get(3128, f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n"))
    assert said.startswith("HTTP/1.1 403")
    assert "private address" in said
    assert not heard


@pytest.mark.parametrize(
    "request_line",
    [
        "GET / HTTP/1.1",
        "GET ftp://localhost/ HTTP/1.1",
        "CONNECT localhost HTTP/1.1",
        "CONNECT x:y HTTP/1.1",
        "nonsense",
    ],
)
async def test_what_is_no_request_to_a_proxy_is_refused(open_to, checkout: Path, request_line: str) -> None:
    async with box(open_to(), checkout, hosts=["localhost:80"]) as inside:
        assert (await inside.says(_get(3128, f"{request_line}\r\n\r\n"))).startswith("HTTP/1.1 400")


async def test_a_command_cannot_take_all_descriptors_of_the_service(
    bwrap: Bwrap, checkout: Path, tmp_path: Path
) -> None:
    at_once, most = 0, 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await reader.read()
        at_once -= 1
        writer.close()

    path = tmp_path / "socket"
    script = 'use IO::Socket::INET; push @s, IO::Socket::INET->new(PeerAddr => "127.0.0.1:80") for 1..200; sleep 1'
    async with await asyncio.start_unix_server(answer, path), box(bwrap, checkout, ports={80: path}) as inside:
        await inside.sh(f"exec perl -e '{script}'")
    assert 0 < most <= MOST_CONNECTIONS


@pytest.mark.parametrize(
    "broken",
    [
        "X: y\nHost: other.example",
        "X: y\n\nGET http://other.example/ HTTP/1.1",
        "X: y\rHost: other.example",
        "X: \0",
        "Host : other.example",
        " folded: x",
        "no colon",
    ],
)
async def test_a_header_that_another_server_may_read_as_two_is_sent_to_nobody(broken: str) -> None:
    async with server("let through") as (port, heard):
        proxy = Egress(AllowedHosts.of(("127.0.0.1",)))([f"127.0.0.1:{port}"])

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await proxy(reader, writer)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            for headers, status in ((f"{broken}\r\n", b"400"), ("X: y\r\n", b"200"), ("", b"200")):
                reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
                writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n{headers}\r\n".encode())
                writer.write_eof()
                async with asyncio.timeout(5):
                    assert (await reader.read()).split()[1] == status
                writer.close()
    assert len(heard) == 2
