"""Killed with -9 under full load, on both databases: whatever was answered is there, once, and is dispatched."""

import asyncio

import pytest

from tests.acceptance.flood import LISTENING, Flood
from tests.acceptance.victims import Victim, free_port, prepare

pytestmark = pytest.mark.postgres


async def test_no_delivery_that_was_answered_is_lost_when_the_service_is_killed_under_full_load(places):
    async def flooded(victim):
        victim.begin()
        try:
            flood = Flood(victim, count=1000, kill_at=500)
            await flood.run()
            await flood.check()
            assert 500 <= flood.before_the_kill < 1000
        finally:
            await victim.end()

    with places.opened(lanes=1) as opened:
        victims = [Victim(folder, url, await prepare(folder, url, LISTENING), free_port()) for folder, url in opened]
        await asyncio.gather(*map(flooded, victims))
