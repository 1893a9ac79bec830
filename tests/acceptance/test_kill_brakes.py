"""What debounce holds, and what an overlap policy has wait, outlive a kill -9: each runs once, in its turn."""

import asyncio
from functools import partial

import pytest
import sqlalchemy as sa

from loops.store.brake_tables import holds
from loops.store.tables import deliveries
from tests.acceptance.victims import OPEN, Places, Victim, free_port, prepare
from tests.integration.running import delay_action, eventually, issue, log_action, workflow

pytestmark = [pytest.mark.asyncio, pytest.mark.postgres]

HELD = workflow(
    "held", log_action("a", "x"), repository="acme/held", trigger_debounce={"quiet": 4, "longest": 60, "key": "all"}
)
QUEUED = workflow(
    "queued",
    delay_action("pause", "4s"),
    log_action("a", "x"),
    repository="acme/queued",
    trigger_overlap={"policy": "queue", "maximum": 3},
)


async def killed_and_back(victim: Victim) -> None:
    victim.begin()
    try:
        for number in (1, 2):
            await victim.accepted(issue("acme/held", number), f"held-{number}")
            await victim.accepted(issue("acme/queued", number), f"queued-{number}")
        await eventually(lambda: victim.found(sa.select(holds)), lambda rows: rows and rows[0]["count"] == 2)
        await eventually(lambda: victim.of("queued-2"), lambda rows: rows and rows[0]["status"] == "waiting")
        assert victim.process is not None
        victim.process.kill()
        await victim.died()
        victim.begin()
        await over(victim)
    finally:
        await victim.end()


async def over(victim: Victim) -> None:
    for key in ("held-2", "queued-1", "queued-2"):
        await eventually(partial(victim.of, key), lambda rows: rows and rows[0]["status"] not in OPEN, 60)
    assert [len(await victim.of(key)) for key in ("held-1", "held-2", "queued-1", "queued-2")] == [0, 1, 1, 1]
    (first,), (second,) = await victim.of("queued-1"), await victim.of("queued-2")
    assert (first["status"], second["status"]) == ("completed", "completed")
    assert second["started_at"] >= first["finished_at"]
    (hold,) = await victim.found(sa.select(holds))
    (last,) = await victim.found(sa.select(deliveries.c.id, deliveries.c.runs).where(deliveries.c.key == "held-2"))
    assert (hold["delivery_id"], last["runs"]) == (last["id"], 1)
    assert hold["released_at"] >= hold["due_at"]


async def test_what_is_held_or_waits_as_a_process_is_killed_runs_once_in_the_next(places: Places) -> None:
    with places.opened(lanes=1) as opened:
        victims = [Victim(folder, url, await prepare(folder, url, HELD, QUEUED), free_port()) for folder, url in opened]
        await asyncio.gather(*map(killed_and_back, victims))
