import asyncio
import logging
import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from server import descriptors
from server.descriptors import MOST, raise_limit, used_and_limit, watch_descriptors


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_takes_all_the_descriptors_that_it_may_have(limits: tuple[int, int]) -> None:
    hard = limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, MOST) if hard >= 0 else MOST, hard)
    used, limit = used_and_limit()
    assert 0 < used < limit


async def test_that_none_are_left_is_said_once_with_what_mends_it_and_so_is_their_return(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptors, "_EVERY_SECONDS", 0.0)
    seen = iter([(10, 1024), (1020, 1024), (1024, 1024), (1024, 1024), (900, 1024), (10, 1024)])
    over = asyncio.Event()

    def ask() -> tuple[int, int]:
        found = next(seen, None)
        if found is None:
            over.set()
        return found or (10, 1024)

    with caplog.at_level(logging.WARNING, "loops.descriptors"):
        task = asyncio.create_task(watch_descriptors(ask))
        await over.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    said = [one.getMessage() for one in caplog.records if one.name == "loops.descriptors"]
    assert len(said) == 2
    assert "ulimit -n" in said[0]
    assert "reverse proxy" in said[0]
    assert "again" in said[1]
