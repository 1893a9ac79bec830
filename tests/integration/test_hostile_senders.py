"""What a stranger without a secret can send, and what it must not do to others."""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from server import listening
from server.api import hooks
from tests.integration.running import Running, issue, running, settings_for


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder / 'loops.db'}"
    async with running(folder, url, role="web", max_body_bytes_in_flight="26214400") as started:
        yield started


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def half_sent(live: Running, told: int, sent: int) -> asyncio.StreamWriter:
    """A connection that tells a length and sends less."""
    host, port = live.service.address.removeprefix("http://").rsplit(":", 1)
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /hooks/github/{live.hook} HTTP/1.1\r\nHost: x\r\nContent-Length: {told}\r\n\r\n"
    writer.write(head.encode() + b"x" * sent)
    await writer.drain()
    return writer


async def test_large_bodies_that_never_end_keep_no_ordinary_delivery_out(live: Running) -> None:
    slow = [await half_sent(live, 26_000_000, 8_000_000) for _ in range(4)]
    await asyncio.sleep(0.5)
    answer = await live.post(issue(), key=str(uuid.uuid4()))
    assert answer["http"] == 202
    for writer in slow:
        writer.close()


async def test_a_body_that_does_not_arrive_in_time_is_given_up(live: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_BODY_SECONDS", 0.2)
    host, port = live.service.address.removeprefix("http://").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST /hooks/github/{live.hook} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nx".encode())
    status = await asyncio.wait_for(reader.readline(), 20)
    assert status.startswith(b"HTTP/1.1 400")
    body = (await reader.read(4000)).partition(b"\r\n\r\n")[2]
    assert "did not arrive" in json.loads(body)["error"]["message"]
    writer.close()


@pytest.mark.parametrize(
    "sent", [b"", b"POST /hooks/github/1 HTTP/1.1\r\nHost: x\r\nX-A: ", b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"]
)
async def test_a_connection_whose_next_request_does_not_come_is_closed(
    sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "IDLE_SECONDS", 0.3)
    one = listening.Listening(settings_for(tmp_path, f"sqlite:///{tmp_path / 'loops.db'}"), web.Application())
    await one.open()
    try:
        host, port = one.address.removeprefix("http://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        await asyncio.wait_for(reader.read(), 20)  # to its end, which only the other side makes
        writer.close()
    finally:
        await one.close(0)


async def test_a_broken_request_leaves_nothing_of_itself_in_the_log(
    live: Running, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = live.service.address.removeprefix("http://").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer loops_" + b"s" * 43 + b"\x01\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.")
    writer.close()
    from server.logs import _is_wanted

    told = [one for one in caplog.records if one.name == "aiohttp.server"]
    assert told, "aiohttp tells of it, so there is something to leave out"
    assert not any(_is_wanted(one, verbose=True) for one in told if one.levelno >= logging.ERROR)


async def test_a_second_service_leaves_the_first_one_its_socket(live: Running, tmp_path: Path) -> None:
    from loops.errors import ConfigError
    from server.app import Service

    folder = live.service.settings.data_dir
    second = Service(live.service.settings.with_port(0), "web")
    with pytest.raises(ConfigError, match="another service listens"):
        await second.start()
    await second.stop()
    assert (folder / "service.json").exists()
